//! System call filters (`seccomp(2)`), which are compiled once from the tables in `system_calls` and then
//! installed for the process and for each thread.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use super::system_calls::{
    Call, Condition, DISPENSABLE, FREQUENT, compiler_calls, follower_calls, issuer_calls, process_calls,
    profiler_calls, receiving_calls, thread_calls,
};
use crate::sandbox::{DenyAction, Layer, Plan, SandboxError, ThreadRole};

/// Filters for the process and for each thread role.
#[derive(Debug)]
pub(in crate::sandbox) struct Filters {
    process: Filter,
    worker: Filter,
    loader: Filter,
    log: Filter,
    coordinator: Filter,
    receiver: Filter,
    main: Filter,
}

/// BPF programs. All of them must allow a call.
#[derive(Debug)]
struct Filter(Vec<BpfProgram>);

impl Filters {
    pub(in crate::sandbox) fn compile(plan: &Plan) -> Result<Filters, SandboxError> {
        let deny_action = plan.deny_action;
        let profiler = || profiler_calls(plan.is_profiled);
        let of =
            |role| Filter::compile(&thread_calls(role).chain(profiler()).collect::<Vec<_>>(), deny_action);

        let calls: Vec<Call> = if !plan.write.is_empty() {
            follower_calls().collect()
        } else if !plan.receive.is_empty() {
            receiving_calls().collect()
        } else if !plan.compile.is_empty() {
            compiler_calls().collect()
        } else if !plan.issue.is_empty() {
            issuer_calls().collect()
        } else {
            process_calls(!plan.remove.is_empty(), plan.rings).chain(profiler()).collect()
        };

        let mut process = Filter::compile(&calls, deny_action)?;
        // A filter can check the flags of `clone`, but not those of `clone3`. Pretend that the kernel does
        // not have the latter, which makes the C library fall back to `clone`.
        process.0.push(deny(&[libc::SYS_clone3], libc::ENOSYS)?);

        Ok(Filters {
            process,
            worker: of(ThreadRole::Worker)?,
            loader: of(ThreadRole::Loader)?,
            log: of(ThreadRole::Log)?,
            coordinator: of(ThreadRole::Coordinator)?,
            receiver: of(ThreadRole::Receiver)?,
            main: of(ThreadRole::Main)?,
        })
    }

    /// Installs the filter for the process.
    pub(in crate::sandbox) fn enter_process(&self) -> Result<Layer, SandboxError> {
        self.process.apply().map_err(|error| SandboxError::SystemCalls(error.to_string()))?;
        Ok(Layer::Active("restricted by seccomp, for the process and for each thread".into()))
    }

    /// Installs the filter for a role in the calling thread. If the kernel rejects it, the reason is
    /// returned.
    pub(in crate::sandbox) fn enter_thread(&self, role: ThreadRole) -> Result<(), String> {
        let filter = match role {
            ThreadRole::Worker => &self.worker,
            ThreadRole::Loader => &self.loader,
            ThreadRole::Log => &self.log,
            ThreadRole::Coordinator => &self.coordinator,
            ThreadRole::Receiver => &self.receiver,
            ThreadRole::Main => &self.main,
        };
        filter.apply().map_err(|error| error.to_string())
    }
}

impl Filter {
    fn compile(calls: &[Call], deny_action: DenyAction) -> Result<Filter, SandboxError> {
        let otherwise = match deny_action {
            DenyAction::Fail => {
                return Ok(Filter(vec![allow(calls, &[], &SeccompAction::Errno(code(libc::EPERM)))?]));
            }
            DenyAction::Kill => SeccompAction::KillProcess,
        };
        let listed = |number: &libc::c_long| calls.iter().any(|call| call.number == *number);
        let dispensable: Vec<_> = DISPENSABLE.iter().copied().filter(|number| !listed(number)).collect();

        let mut programs = vec![allow(calls, &dispensable, &otherwise)?];
        // When programs disagree, the strictest result wins, which is killing. In order to fail these calls
        // with an error instead, this program has to allow them and another one has to deny them.
        if !dispensable.is_empty() {
            programs.push(deny(&dispensable, libc::EPERM)?);
        }
        Ok(Filter(programs))
    }

    /// Installs the programs. The main one comes last because it does not allow to install any more.
    fn apply(&self) -> Result<(), seccompiler::Error> {
        self.0.iter().rev().try_for_each(|program| apply_filter(program))
    }
}

/// Returns a program that allows `calls` under their conditions, and `numbers` with any arguments.
fn allow(
    calls: &[Call],
    numbers: &[libc::c_long],
    otherwise: &SeccompAction,
) -> Result<BpfProgram, SandboxError> {
    // An empty list of rules allows any arguments.
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in calls {
        if !call.conditions.is_empty() {
            let conditions = call.conditions.iter().map(condition).collect::<Result<Vec<_>, _>>()?;
            rules.entry(call.number).or_default().push(SeccompRule::new(conditions).map_err(failed)?);
        }
    }
    let any = calls.iter().filter(|call| call.conditions.is_empty()).map(|call| call.number);
    rules.extend(any.chain(numbers.iter().copied()).map(|number| (number, Vec::new())));
    program(rules, otherwise, &SeccompAction::Allow)
}

/// Returns a program that denies these calls with an error, and allows all others.
fn deny(numbers: &[libc::c_long], error: libc::c_int) -> Result<BpfProgram, SandboxError> {
    let rules = numbers.iter().map(|number| (*number, Vec::new())).collect();
    program(rules, &SeccompAction::Allow, &SeccompAction::Errno(code(error)))
}

fn code(error: libc::c_int) -> u32 {
    error.cast_unsigned()
}

/// Compiles a program that takes the action `matched` for calls that match a rule and `otherwise` for
/// all others.
fn program(
    mut rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: &SeccompAction,
    matched: &SeccompAction,
) -> Result<BpfProgram, SandboxError> {
    let compile = |rules| -> Result<BpfProgram, _> {
        let target = TargetArch::try_from(ARCH).map_err(failed)?;
        let filter = SeccompFilter::new(rules, otherwise.clone(), matched.clone(), target).map_err(failed)?;
        filter.try_into().map_err(failed)
    };

    // Programs compare call numbers one after the other, in ascending order, so start with a program for the
    // calls on the request path. Its last instruction (the action for calls without a rule) is then replaced
    // with the program for all other calls.
    let frequent: BTreeMap<_, _> =
        FREQUENT.iter().filter_map(|number| Some((*number, rules.remove(number)?))).collect();
    let rest = compile(rules)?;
    if frequent.is_empty() {
        return Ok(rest);
    }
    let mut program = compile(frequent)?;
    let last = program.pop();
    debug_assert_eq!(last.map(|last| last.k), rest.last().map(|last| last.k), "the action `otherwise`");
    program.extend(rest);
    Ok(program)
}

/// Converts a condition for seccompiler.
fn condition(condition: &Condition) -> Result<SeccompCondition, SandboxError> {
    // The kernel uses 32 bits of the arguments that are compared here.
    let half = SeccompCmpArgLen::Dword;
    let built = match *condition {
        // A null pointer has 64 bits.
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
        Condition::IsApartFrom(argument, flags, value) => {
            SeccompCondition::new(argument, half, SeccompCmpOp::MaskedEq(!flags & u64::from(u32::MAX)), value)
        }
        Condition::OwnProcess => {
            SeccompCondition::new(0, half, SeccompCmpOp::Eq, u64::from(std::process::id()))
        }
    };
    built.map_err(failed)
}

#[allow(clippy::needless_pass_by_value, reason = "the signature of `map_err`")]
fn failed(error: seccompiler::BackendError) -> SandboxError {
    SandboxError::SystemCalls(error.to_string())
}
