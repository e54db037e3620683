//! A photo album with a form to upload photos of any size: `photos [ADDRESS:PORT]`. Photos are kept in a temporary folder.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use cannery::{ContentReader, HandlerError, Multipart, OrStatus, Request, Response, Server};

const FORM: &str = "<!doctype html><title>Photos</title><h1>Photos</h1>
<form method=post enctype=multipart/form-data><input name=photo type=file multiple required><button>Upload</button></form>";

/// A client may send this many bytes.
const UPLOAD_BYTES_MAX: u64 = 1 << 30;

const PHOTO_BYTES_MAX: u64 = 100 << 20;

/// The number of the next photo.
static NEXT: AtomicU32 = AtomicU32::new(1);

fn folder() -> PathBuf {
    std::env::temp_dir().join("cannery-photos")
}

/// Returns the numbers of all complete photos, which are their names.
fn numbers() -> std::io::Result<Vec<u32>> {
    let names = fs::read_dir(folder())?.filter_map(Result::ok);
    let mut numbers: Vec<u32> = names.filter_map(|file| file.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Lists the photos.
fn album(_: &Request) -> Result<Response, HandlerError> {
    let mut page = FORM.to_owned();
    for number in numbers()? {
        page += &format!("<p><img src=/photos/{number} width=300>");
    }
    Ok(Response::html(page))
}

/// Stores photos while they arrive, under names of our own.
fn add(request: &Request, content: ContentReader) -> Result<Response, HandlerError> {
    let mut form = Multipart::new(request, content)?.part_bytes_max(PHOTO_BYTES_MAX);
    while let Some(mut part) = form.next_part()? {
        if part.name() == "photo" {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            part.save_to(folder().join(number.to_string()))?;
        }
    }
    Ok(Response::redirect(303, "/"))
}

fn photo(request: &Request) -> Result<Response, HandlerError> {
    // Nothing but a number gets into the path.
    let number: u32 = request.param("number").parse().or_status(404, "There is no such photo.")?;
    let bytes = fs::read(folder().join(number.to_string())).or_status(404, "There is no such photo.")?;
    Ok(Response::bytes("image/jpeg", bytes))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    fs::create_dir_all(folder())?;
    NEXT.fetch_add(numbers()?.last().copied().unwrap_or_default(), Ordering::Relaxed);
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7028".to_owned());
    Server::new()
        .content_bytes_max(UPLOAD_BYTES_MAX)
        .blocking_route("GET /{$}", album)
        .upload_route("POST /{$}", add)
        .blocking_route("GET /photos/{number}", photo)
        .bind(&address)
        .run()?;
    Ok(())
}
