//! Some files are already compressed, and have a `Content-Encoding` in `_headers`.

use cannery_archive::Coding;
use cannery_archiver::{Encoder, Error};
use libdeflater::{CompressionLvl, Compressor};

use crate::site::Site;

const WASM: &str = "\0asm and a module of a game. Trees, houses, rivers, mountains, clouds, birds, fish, cats, dogs and all the others \
                    were compressed by the editor: trees, houses, rivers, mountains, clouds, birds, fish, cats, dogs and all the \
                    others. Trees, houses, rivers, mountains, clouds, birds, fish, cats, dogs and all the others are in it twice.";

fn coded(coding: Coding) -> Vec<u8> {
    let mut out = vec![0; 1000];
    let length = match coding {
        Coding::Identity => return WASM.into(),
        Coding::Gzip => {
            Compressor::new(CompressionLvl::default()).gzip_compress(WASM.as_bytes(), &mut out).unwrap()
        }
        Coding::Brotli => {
            let mut coded = Vec::new();
            brotli::BrotliCompress(&mut WASM.as_bytes(), &mut coded, &Default::default()).unwrap();
            return coded;
        }
        Coding::Zstd => zstd_safe::compress(&mut out[..], WASM.as_bytes(), 3).unwrap(),
    };
    out.truncate(length);
    out
}

/// A web build made by Unity. The editor compressed it.
#[test]
fn compressed_files_are_decoded_and_negotiated() {
    let rules = "/Build/*.br\n  Content-Encoding: br\n/Build/*.gz\n  Content-Encoding: gzip\n/Build/*.zst\n  \
                 Content-Encoding: zstd\n/Build/g.data.br\n  Content-Type: application/x-game\n";
    let mut site = Site::new(&[("_headers", rules), ("Build/g.loader.js", "load"), ("other.br", "as it is")]);
    site.options.encoders = [Encoder::Identity, Encoder::Gzip, Encoder::Brotli].into();

    for (name, coding) in [
        ("g.wasm.br", Coding::Brotli),
        ("g.data.br", Coding::Brotli),
        ("g.framework.js.gz", Coding::Gzip),
        ("g.symbols.json.zst", Coding::Zstd),
    ] {
        site.write(format!("Build/{name}"), coded(coding));
    }

    let built = site.build();
    assert_eq!(built.remarks(), [""; 0]);

    for (name, media_type) in [
        ("g.wasm.br", "application/wasm"),
        ("g.data.br", "application/x-game"),
        ("g.framework.js.gz", "text/javascript; charset=utf-8"),
        ("g.symbols.json.zst", "application/json"),
    ] {
        let page = built.page(format!("/Build/{name}"));
        assert_eq!((page.text(), page.field("Content-Type")), (WASM, Some(media_type)), "{name}");
        let mut codings = page.codings();
        codings.sort();
        assert_eq!(codings, [Coding::Identity, Coding::Gzip, Coding::Brotli], "{name}");
        let identity = page.forms.iter().find(|form| form.coding == Coding::Identity).unwrap();
        assert_eq!((identity.field("Content-Encoding"), &*identity.stored), (None, WASM.as_bytes()));
    }
    assert_eq!(built.page("/other.br").text(), "as it is", "no rule is for it");
}

#[test]
fn caches_do_not_mix_the_file_and_its_content() {
    let mut site = Site::new(&[]);
    site.options.sources_cache = Some(site.beside("sources"));
    site.write("g.bin.gz", coded(Coding::Gzip));
    assert_eq!(site.build().page("/g.bin.gz").body, coded(Coding::Gzip));
    site.write("_headers", "/*.gz\n  Content-Encoding: gzip\n");
    assert_eq!(site.build().page("/g.bin.gz").text(), WASM);
    assert_eq!(site.build().page("/g.bin.gz").text(), WASM, "from the caches");
    site.write("_headers", "/*.gz\n  X-A: 1\n");
    assert_eq!(site.build().page("/g.bin.gz").body, coded(Coding::Gzip));
}

#[test]
fn file_that_cannot_be_decoded_is_an_error_with_its_rule() {
    for (name, coding) in [("a.gz", "gzip"), ("a.br", "br"), ("a.zst", "zstd")] {
        let site = Site::new(&[("index.html", "home"), (name, "this isn't compressed")]);
        site.write("_headers", format!("/*\n  X-A: 1\n/{name}\n  Content-Encoding: {coding}\n"));
        let Err(Error::Sources { report, .. }) = site.try_build() else { panic!("{name} was accepted") };
        let found = &report.diagnostics[0];
        assert_eq!((&*found.file, found.line, found.code), ("_headers", Some(3), "bad-content-encoding"));
        assert!(found.message.contains(name), "{}", found.message);
    }
}
