//! Circles between the modules of one crate.
//!
//! From every `crate::…` and `super::…` in the code follows which module names which. A name that a
//! module hands on (`pub use`) leads to the module it comes from. Two modules are compared where their
//! paths part: if `h1::parse` names `h2::frame`, then `h1` imports `h2`. So parents and children, which
//! belong together, are never a circle, and siblings are.
//!
//! Tests may name what they like. Paths through macros and globs are not seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{Source, is_part_of_identifier};

/// A module's path below the crate; the crate itself is the empty one.
type Module = Vec<String>;

/// The circles among the files of a crate, each as the modules along it, the first one again at its end.
pub(crate) fn find(folder: &str, sources: &[Source]) -> Vec<Vec<String>> {
    circles(&imports(folder, sources))
}

/// Returns the imports that contradict the order in which the root of a crate lists its modules: each module may import
/// only modules that are listed after it. Each finding is the importing module and the imported one.
pub(crate) fn against_order(folder: &str, sources: &[Source]) -> Vec<(String, String)> {
    let root = sources.iter().find(|source| source.path == format!("{folder}/lib.rs"));
    let order = root.map_or_else(Vec::new, |root| declared(&without_tests(&root.code)));
    let place = |module: &Module| order.iter().position(|name| module == std::slice::from_ref(name));
    let mut findings = Vec::new();
    for (from, imported) in imports(folder, sources) {
        for to in imported {
            if let (Some(importer), Some(import)) = (place(&from), place(&to))
                && import <= importer
            {
                findings.push((from.join("::"), to.join("::")));
            }
        }
    }
    findings
}

/// Returns, for each module, the modules that it imports. Modules for tests alone are left out.
fn imports(folder: &str, sources: &[Source]) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut modules = BTreeMap::new();
    let mut only_tests = Vec::new();
    for source in sources {
        let Some(module) = source.path.strip_prefix(folder).and_then(module_of) else { continue };
        for name in test_modules(&source.code) {
            only_tests.push([module.as_slice(), &[name]].concat());
        }
        modules.insert(module, without_tests(&source.code));
    }
    modules.retain(|module: &Module, _| !only_tests.iter().any(|tests| module.starts_with(tests)));

    let names: Names = Names::of(&modules);
    let mut arrows: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (module, code) in &modules {
        for path in paths(code, module) {
            if let Some((from, to)) = part(module, &names.resolve(path)) {
                arrows.entry(from).or_default().insert(to);
            }
        }
    }
    arrows
}

/// `/h1/parse.rs` is the module `h1::parse`; `/bin/` holds other crates.
fn module_of(path: &str) -> Option<Module> {
    let path = path.trim_start_matches('/').strip_suffix(".rs")?;
    let mut parts: Module = path.split('/').map(String::from).collect();
    if parts.first().is_some_and(|first| first == "bin") {
        return None;
    }
    if parts.last().is_some_and(|last| last == "mod") || parts == ["lib"] || parts == ["main"] {
        parts.pop();
    }
    Some(parts)
}

/// Returns the code without the items that only tests are compiled with.
fn without_tests(code: &str) -> String {
    let mut kept = String::new();
    let mut rest = code;
    while let Some(start) = TEST_ATTRIBUTES.iter().filter_map(|attribute| rest.find(attribute)).min() {
        kept.push_str(&rest[..start]);
        rest = &rest[start + item_length(&rest[start..])..];
    }
    kept + rest
}

/// How attributes begin whose items are compiled for tests, and perhaps for measurements.
const TEST_ATTRIBUTES: [&str; 2] = ["#[cfg(test)]", "#[cfg(any(test,"];

/// Returns the length of the item at the start of the code: to its semicolon, or to its closing brace.
fn item_length(code: &str) -> usize {
    let mut depth = 0_usize;
    for (place, letter) in code.char_indices() {
        match letter {
            ';' if depth == 0 => return place + 1,
            '{' => depth += 1,
            '}' if depth <= 1 => return place + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// Returns the names of the modules that are declared for tests alone, each in a file of its own.
fn test_modules(code: &str) -> Vec<String> {
    let starts = TEST_ATTRIBUTES.iter().flat_map(|attribute| code.match_indices(attribute));
    let items = starts.map(|(start, _)| &code[start..]);
    items.flat_map(|item| declared(&item[..item_length(item)])).collect()
}

/// Returns the names of the modules that the code declares, in order.
fn declared(code: &str) -> Vec<String> {
    let statements = code.split_inclusive(';').filter_map(|text| text.strip_suffix(';'));
    let names = statements.filter_map(|text| text.rsplit_once("mod "));
    names
        .filter(|(_, name)| name.chars().all(is_part_of_identifier))
        .map(|(_, name)| name.to_owned())
        .collect()
}

/// What a path can lead to.
struct Names {
    modules: BTreeSet<Module>,
    /// From a name that a module hands on to where it comes from.
    handed_on: BTreeMap<Module, Module>,
}

impl Names {
    fn of(modules: &BTreeMap<Module, String>) -> Names {
        let mut handed_on = BTreeMap::new();
        for (module, code) in modules {
            for statement in code.split(';').filter_map(handed_on_by) {
                for path in expand(statement) {
                    let target =
                        absolute(&path, module).unwrap_or_else(|| [module.as_slice(), &path].concat());
                    if let Some(name) = target.last() {
                        handed_on
                            .insert([module.as_slice(), std::slice::from_ref(name)].concat(), target.clone());
                    }
                }
            }
        }
        Names { modules: modules.keys().cloned().collect(), handed_on }
    }

    /// The module in which the thing at the end of a path stands. Each step hands on at most once, and a
    /// path has no more steps than there are names, so this ends even if names lead in a circle.
    fn resolve(&self, mut path: Module) -> Module {
        for _ in 0..self.handed_on.len() {
            let prefix =
                (1..=path.len()).rev().find_map(|end| Some((end, self.handed_on.get(&path[..end])?)));
            match prefix {
                Some((end, target)) if path[..end] != **target => path = [target, &path[end..]].concat(),
                _ => break,
            }
        }
        while !path.is_empty() && !self.modules.contains(&path) {
            path.pop();
        }
        path
    }
}

/// Returns the use tree of a statement that hands names on: `pub use TREE` or `pub(crate) use TREE`.
fn handed_on_by(statement: &str) -> Option<&str> {
    let (before, tree) = statement.rsplit_once(" use ")?;
    let visibility = before.rsplit(char::is_whitespace).next()?;
    (visibility == "pub" || visibility.starts_with("pub(")).then_some(tree)
}

/// The paths that a module's code names, from the crate's root.
fn paths(code: &str, module: &Module) -> Vec<Module> {
    let starts = ["crate::", "super::"].iter().flat_map(|start| code.match_indices(start));
    starts
        .map(|(start, _)| start)
        .filter(|&start| {
            !code[..start].ends_with("super::") && !code[..start].ends_with(is_part_of_identifier)
        })
        .flat_map(|start| expand(&code[start..]))
        .filter_map(|path| absolute(&path, module))
        .collect()
}

/// A path that begins with `crate` or `super`, from the crate's root; nothing for other paths.
fn absolute(path: &[String], module: &Module) -> Option<Module> {
    let ups = path.iter().take_while(|part| *part == "super").count();
    match path.first().map(String::as_str) {
        Some("crate") => Some(path[1..].to_vec()),
        Some("self") => Some([module.as_slice(), &path[1..]].concat()),
        Some("super") => Some([module.get(..module.len().checked_sub(ups)?)?, &path[ups..]].concat()),
        _ => None,
    }
}

/// The paths of a use tree at the start of a text: `a::{b, c::d}` is `a::b` and `a::c::d`. What follows
/// the tree is left alone. A new name (`as`) is ignored, which loses an arrow and never invents one.
fn expand(text: &str) -> Vec<Module> {
    let mut rest = text;
    tree(&mut rest)
}

fn tree(rest: &mut &str) -> Vec<Module> {
    *rest = rest.trim_start();
    if let Some(inside) = rest.strip_prefix('{') {
        *rest = inside;
        return group(rest);
    }
    let end = rest.find(|letter| !is_part_of_identifier(letter)).unwrap_or(rest.len());
    let (part, after) = rest.split_at(end);
    *rest = after;
    if part.is_empty() {
        return vec![Vec::new()];
    }
    let Some(below) = rest.strip_prefix("::") else { return vec![vec![part.to_owned()]] };
    *rest = below;
    tree(rest).into_iter().map(|path| [vec![part.to_owned()], path].concat()).collect()
}

/// The trees between braces, of which the first is open already.
fn group(rest: &mut &str) -> Vec<Module> {
    let mut paths = Vec::new();
    loop {
        paths.extend(tree(rest));
        let Some(place) = rest.find([',', '}']) else { return paths };
        let closed = rest[place..].starts_with('}');
        *rest = &rest[place + 1..];
        if closed {
            return paths;
        }
    }
}

/// Where two modules' paths part: the siblings there. Nothing if one contains the other.
fn part(from: &Module, to: &Module) -> Option<(Module, Module)> {
    let shared = from.iter().zip(to).take_while(|(one, other)| one == other).count();
    Some((from.get(..=shared)?.to_vec(), to.get(..=shared)?.to_vec()))
}

/// At least one circle wherever there is one, found by walking depth first: one for each arrow that leads
/// back to the way that led to it.
fn circles(arrows: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<String>> {
    let (mut found, mut finished) = (Vec::new(), BTreeSet::new());
    for start in arrows.keys() {
        walk(start, arrows, &mut Vec::new(), &mut finished, &mut found);
    }
    found
}

fn walk(
    module: &Module,
    arrows: &BTreeMap<Module, BTreeSet<Module>>,
    trail: &mut Vec<Module>,
    finished: &mut BTreeSet<Module>,
    found: &mut Vec<Vec<String>>,
) {
    if let Some(start) = trail.iter().position(|earlier| earlier == module) {
        found.push(trail[start..].iter().chain([module]).map(|module| module.join("::")).collect());
        return;
    }
    if finished.contains(module) {
        return;
    }
    trail.push(module.clone());
    for next in arrows.get(module).into_iter().flatten() {
        walk(next, arrows, trail, finished, found);
    }
    trail.pop();
    finished.insert(module.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Vec<Source> {
        files
            .iter()
            .map(|(path, code)| Source {
                path: format!("src/{path}"),
                text: String::new(),
                code: (*code).into(),
            })
            .collect()
    }

    fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
        find("src", &sources(files)).iter().map(|circle| circle.join(" -> ")).collect()
    }

    #[test]
    fn two_modules_that_name_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::Thing;"),
            ("b.rs", "fn f() { super::a::g() }"),
        ];
        assert_eq!(circles_of(&files), ["a -> b -> a"]);
    }

    #[test]
    fn a_circle_through_groups_and_names_handed_on_is_seen() {
        let files = [
            ("lib.rs", "pub use b::{Other, Thing};"),
            ("a.rs", "use crate::{e::X, Thing};"),
            ("b.rs", "use crate::c::d;"),
            ("c/mod.rs", ""),
            ("c/d.rs", "use super::super::a;"),
            ("e.rs", "use crate::c;"),
        ];
        assert_eq!(circles_of(&files), ["a -> b -> c -> a"]);
    }

    #[test]
    fn parents_children_and_tests_make_no_circle() {
        let files = [
            ("lib.rs", "pub use h1::Parser;"),
            ("h1/mod.rs", "pub use parse::Parser; use self::body::Body;"),
            ("h1/parse.rs", "use super::State; use super::body::Body;"),
            ("h1/body.rs", "use crate::limits; #[cfg(test)] mod tests { use crate::h1::parse; }"),
            ("limits.rs", ""),
        ];
        assert_eq!(circles_of(&files), Vec::<String>::new());
    }

    #[test]
    fn imports_of_modules_listed_earlier_are_found() {
        let files = [
            ("lib.rs", "mod whole; #[cfg(test)] mod net; pub mod part; pub(crate) mod ground;"),
            ("whole.rs", "use crate::part;"),
            ("net.rs", "use crate::whole;"),
            ("part.rs", "#[cfg(test)] mod tests; use crate::{ground::Thing, whole::Other};"),
            ("part/tests.rs", "use crate::net;"),
            ("ground.rs", "#[cfg(test)] mod tests { use crate::part; } fn f() { super::part::g() }"),
        ];
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(against_order("src", &sources(&files)), [pair("ground", "part"), pair("part", "whole")]);
    }
}
