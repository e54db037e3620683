//! Imports between the modules of a crate: cycles, and imports against the order of `lib.rs`.
//!
//! Each `crate::…` and `super::…` path in the code is an import. A re-export (`pub use`) resolves to the module of the
//! original. Imports are compared where the paths diverge: if `h1::parse` names `h2::frame`, then `h1` imports `h2`. Parent
//! and child modules therefore never form a cycle, and siblings can.
//!
//! Test modules may import everything. Paths through macros and glob imports are ignored.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{Source, is_part_of_identifier};

/// The path of a module in its crate; empty for the crate root.
type Module = Vec<String>;

/// Returns import cycles among the files of a crate. Each one lists its modules and repeats the first at the end.
pub(crate) fn cycles(folder: &str, sources: &[Source]) -> Vec<Vec<String>> {
    cycles_in(&imports(folder, sources))
}

/// Returns the imports that contradict the order in which the file `list` of a crate lists its modules: each module may
/// import only modules that are listed after it. Each finding is the importing module and the imported one.
pub(crate) fn against_order(folder: &str, list: &str, sources: &[Source]) -> Vec<(String, String)> {
    let list = sources.iter().find(|source| source.path == list);
    let parent = list.and_then(|list| module_of(list.path.strip_prefix(folder)?)).unwrap_or_default();
    let order = list.map_or_else(Vec::new, |list| declared(&without_tests(&list.code)));
    let place = |module: &Module| {
        let (name, above) = module.split_last()?;
        order.iter().position(|listed| listed == name).filter(|_| *above == *parent)
    };
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
    let mut imports: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (module, code) in &modules {
        for path in paths(code, module) {
            if let Some((from, to)) = diverge(module, &names.resolve(path)) {
                imports.entry(from).or_default().insert(to);
            }
        }
    }
    imports
}

/// Returns the module of a file: `/h1/parse.rs` is `h1::parse`. Returns `None` below `/bin/`, which has other crates.
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

/// Returns the code without items for tests only.
fn without_tests(code: &str) -> String {
    let mut kept = String::new();
    let mut rest = code;
    while let Some(start) = TEST_ATTRIBUTES.iter().filter_map(|attribute| rest.find(attribute)).min() {
        kept.push_str(&rest[..start]);
        rest = &rest[start + item_length(&rest[start..])..];
    }
    kept + rest
}

/// Starts of attributes that mark items for tests, and perhaps for measurements.
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

/// The modules and re-exports that a path can name.
struct Names {
    modules: BTreeSet<Module>,
    /// The original of each re-exported name.
    reexports: BTreeMap<Module, Module>,
}

impl Names {
    fn of(modules: &BTreeMap<Module, String>) -> Names {
        let mut reexports = BTreeMap::new();
        for (module, code) in modules {
            for statement in code.split(';').filter_map(reexported) {
                for path in expand(statement) {
                    let target =
                        absolute(&path, module).unwrap_or_else(|| [module.as_slice(), &path].concat());
                    if let Some(name) = target.last() {
                        reexports
                            .insert([module.as_slice(), std::slice::from_ref(name)].concat(), target.clone());
                    }
                }
            }
        }
        Names { modules: modules.keys().cloned().collect(), reexports }
    }

    /// Returns the module that contains the item of a path. The number of steps is bounded by the number of re-exports, so
    /// the function returns even if re-exports form a cycle.
    fn resolve(&self, mut path: Module) -> Module {
        for _ in 0..self.reexports.len() {
            let prefix =
                (1..=path.len()).rev().find_map(|end| Some((end, self.reexports.get(&path[..end])?)));
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

/// Returns the use tree of a re-export: `pub use TREE` or `pub(crate) use TREE`.
fn reexported(statement: &str) -> Option<&str> {
    let (before, tree) = statement.rsplit_once(" use ")?;
    let visibility = before.rsplit(char::is_whitespace).next()?;
    (visibility == "pub" || visibility.starts_with("pub(")).then_some(tree)
}

/// Returns the paths in a module's code, from the crate root.
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

/// Returns a path from the crate root, or `None` unless it begins with `crate`, `self` or `super`.
fn absolute(path: &[String], module: &Module) -> Option<Module> {
    let ups = path.iter().take_while(|part| *part == "super").count();
    match path.first().map(String::as_str) {
        Some("crate") => Some(path[1..].to_vec()),
        Some("self") => Some([module.as_slice(), &path[1..]].concat()),
        Some("super") => Some([module.get(..module.len().checked_sub(ups)?)?, &path[ups..]].concat()),
        _ => None,
    }
}

/// Returns the paths of the use tree at the start of a text: `a::{b, c::d}` is `a::b` and `a::c::d`. New names (`as`) are
/// ignored, which can hide an import but never invents one.
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

/// Parses use trees up to the closing brace.
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

/// Returns the sibling modules at which two paths diverge, or `None` if one module contains the other.
fn diverge(from: &Module, to: &Module) -> Option<(Module, Module)> {
    let shared = from.iter().zip(to).take_while(|(one, other)| one == other).count();
    Some((from.get(..=shared)?.to_vec(), to.get(..=shared)?.to_vec()))
}

/// Finds cycles by depth-first search: one for each import of a module on the current path.
fn cycles_in(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut finished = BTreeSet::new();
    for start in imports.keys() {
        walk(start, imports, &mut Vec::new(), &mut finished, &mut found);
    }
    found
}

fn walk(
    module: &Module,
    imports: &BTreeMap<Module, BTreeSet<Module>>,
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
    for next in imports.get(module).into_iter().flatten() {
        walk(next, imports, trail, finished, found);
    }
    trail.pop();
    finished.insert(module.clone());
}

#[cfg(test)]
mod tests;
