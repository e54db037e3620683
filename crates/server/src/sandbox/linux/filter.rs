//! Filters of system calls, by seccomp: compiled from the tables once, installed for the process and then
//! narrower for each thread.
//!
//! Never decides which call is allowed.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use super::system_calls::{Call, Condition, DISPENSABLE, of_process, of_thread};
use crate::sandbox::{Denied, Layer, Plan, SandboxError, ThreadRole};

/// The filters of a process and of each role.
#[derive(Debug)]
pub(in crate::sandbox) struct Filters {
    process: Filter,
    worker: Filter,
    releases: Filter,
    log: Filter,
    orders: Filter,
}

/// Programs that all have to agree before a call is made.
#[derive(Debug)]
struct Filter(Vec<BpfProgram>);

impl Filters {
    pub(in crate::sandbox) fn compile(plan: &Plan) -> Result<Filters, SandboxError> {
        let denied = plan.denied;
        let of = |role| Filter::compile(&of_thread(role).collect::<Vec<_>>(), denied);
        let mut process =
            Filter::compile(&of_process(!plan.remove.is_empty(), plan.rings).collect::<Vec<_>>(), denied)?;
        // As a kernel answers that does not know it: the C library then uses `clone`, whose flags can be seen.
        process.0.push(refuse(&[libc::SYS_clone3], libc::ENOSYS)?);
        Ok(Filters {
            process,
            worker: of(ThreadRole::Worker)?,
            releases: of(ThreadRole::Releases)?,
            log: of(ThreadRole::Log)?,
            orders: of(ThreadRole::Orders)?,
        })
    }

    /// Narrows what the whole process may do.
    pub(in crate::sandbox) fn enter_process(&self) -> Result<Layer, SandboxError> {
        self.process.apply().map_err(|error| SandboxError::SystemCalls(error.to_string()))?;
        Ok(Layer::There("narrowed by seccomp, for the process and for each thread".into()))
    }

    /// Narrows what the calling thread may do; says why where that cannot be.
    pub(in crate::sandbox) fn enter_thread(&self, role: ThreadRole) -> Result<(), String> {
        let filter = match role {
            ThreadRole::Worker => &self.worker,
            ThreadRole::Releases => &self.releases,
            ThreadRole::Log => &self.log,
            ThreadRole::Orders => &self.orders,
        };
        filter.apply().map_err(|error| error.to_string())
    }
}

impl Filter {
    fn compile(calls: &[Call], denied: Denied) -> Result<Filter, SandboxError> {
        let otherwise = match denied {
            Denied::Fails => {
                return Ok(Filter(vec![allow(calls, &[], SeccompAction::Errno(code(libc::EPERM)))?]));
            }
            Denied::Ends => SeccompAction::KillProcess,
        };
        let listed = |number: &libc::c_long| calls.iter().any(|call| call.number == *number);
        let dispensable: Vec<_> = DISPENSABLE.iter().copied().filter(|number| !listed(number)).collect();
        let mut programs = vec![allow(calls, &dispensable, otherwise)?];
        // The stricter word counts, and the end is the strictest: so the list lets these pass, and another
        // program refuses them.
        if !dispensable.is_empty() {
            programs.push(refuse(&dispensable, libc::EPERM)?);
        }
        Ok(Filter(programs))
    }

    /// The list comes last, for it does not let further programs in.
    fn apply(&self) -> Result<(), seccompiler::Error> {
        self.0.iter().rev().try_for_each(|program| apply_filter(program))
    }
}

/// A program that lets these calls pass, and those with any arguments.
fn allow(
    calls: &[Call],
    numbers: &[libc::c_long],
    otherwise: SeccompAction,
) -> Result<BpfProgram, SandboxError> {
    // To the library an empty list of rules means any arguments.
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in calls {
        if !call.conditions.is_empty() {
            let conditions = call.conditions.iter().map(condition).collect::<Result<Vec<_>, _>>()?;
            rules.entry(call.number).or_default().push(SeccompRule::new(conditions).map_err(failed)?);
        }
    }
    let any = calls.iter().filter(|call| call.conditions.is_empty()).map(|call| call.number);
    rules.extend(any.chain(numbers.iter().copied()).map(|number| (number, Vec::new())));
    program(rules, otherwise, SeccompAction::Allow)
}

/// A program that refuses these calls, and lets all others pass.
fn refuse(numbers: &[libc::c_long], error: libc::c_int) -> Result<BpfProgram, SandboxError> {
    let rules = numbers.iter().map(|number| (*number, Vec::new())).collect();
    program(rules, SeccompAction::Allow, SeccompAction::Errno(code(error)))
}

fn code(error: libc::c_int) -> u32 {
    error.cast_unsigned()
}

fn program(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, SandboxError> {
    let target = TargetArch::try_from(ARCH).map_err(failed)?;
    let filter = SeccompFilter::new(rules, otherwise, matched, target).map_err(failed)?;
    filter.try_into().map_err(failed)
}

/// A condition as the library spells it.
fn condition(condition: &Condition) -> Result<SeccompCondition, SandboxError> {
    // The kernel looks at no more than 32 bits of the numbers that are compared here.
    let half = SeccompCmpArgLen::Dword;
    let built = match *condition {
        // A null pointer is compared whole.
        Condition::Is(argument, 0) => {
            SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)
        }
        Condition::Is(argument, value) => SeccompCondition::new(argument, half, SeccompCmpOp::Eq, value),
        Condition::Without(argument, bits) => {
            SeccompCondition::new(argument, half, SeccompCmpOp::MaskedEq(bits), 0)
        }
        Condition::With(argument, bits) => {
            SeccompCondition::new(argument, half, SeccompCmpOp::MaskedEq(bits), bits)
        }
        Condition::OwnProcess => {
            SeccompCondition::new(0, half, SeccompCmpOp::Eq, u64::from(std::process::id()))
        }
    };
    built.map_err(failed)
}

#[allow(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
fn failed(error: seccompiler::BackendError) -> SandboxError {
    SandboxError::SystemCalls(error.to_string())
}
