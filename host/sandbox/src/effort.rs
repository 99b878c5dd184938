//! How much one function asks of the compiler, counted from its instructions before it is compiled.

use std::ops::AddAssign;

use wasmparser::{
    BinaryReaderError, FrameKind, FuncToValidate, FuncValidator, FuncValidatorAllocations, FunctionBody, Operator,
    SubType, ValidatorResources, WasmModuleResources,
};

// The largest real functions are those of interpreters. Each bound leaves them a factor of four.
// Python: componentize-py 0.25.1 (CPython 3.14). JavaScript: componentize-js 0.23.0 (StarlingMonkey) and
// componentize-qjs 0.4.5 (QuickJS). Go: 1.27 with net/http.

/// Parameters and results of one function or block. Python has 18.
pub(crate) const ARITY_MAX: usize = 100;

/// Python has 781. Five times the bound costs four times as much for each byte as ordinary code.
const NESTING_MAX: u64 = 3_200;

/// QuickJS has 21. Time grows with the square: 12,000 take half a minute.
const LOOPS_MAX: u64 = 100;

/// StarlingMonkey has 12,652, Python 11,672.
const BRANCHES_MAX: u64 = 52_000;

/// StarlingMonkey has 728,454, Python 271,974. A million takes a quarter of a second and 50 MB.
const JOINED_MAX: u64 = 3_000_000;

/// Of all functions. StarlingMonkey has 12.9 million, Go 8.2 million, Python 7.5 million.
const JOINED_TOTAL_MAX: u64 = 52_000_000;

/// Python has 7,780.
const PASSED_MAX: u64 = 32_000;

/// Of all functions. StarlingMonkey has 342,946, Python 284,766.
const PASSED_TOTAL_MAX: u64 = 1_400_000;

/// What Cranelift's time and memory grow with, apart from the length of the code.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Blocks, loops and ifs inside each other, at the deepest place.
    pub(crate) nesting: u64,
    /// Loops inside each other, at the deepest place.
    pub(crate) loops: u64,
    /// Places where control flow parts or joins. A `br_table` is one, however many targets it has.
    pub(crate) branches: u64,
    /// Locals, operands on the stack and surrounding loops, added up over these places and every target of a
    /// `br_table`: each value may become a parameter of a block there.
    pub(crate) joined: u64,
    /// Parameters and results of the function itself, and of all calls in it. Each is moved to where the called
    /// function expects it.
    pub(crate) passed: u64,
}

impl Effort {
    /// The first rule that one function breaks.
    pub(crate) fn check(&self) -> Result<(), String> {
        within(self.nesting, NESTING_MAX, "blocks inside each other")?;
        within(self.loops, LOOPS_MAX, "loops inside each other")?;
        within(self.branches, BRANCHES_MAX, "branches and ends of blocks")?;
        within(self.joined, JOINED_MAX, "values alive at its branches (locals and operands, counted at each)")?;
        within(self.passed, PASSED_MAX, "parameters and results in its calls")
    }

    /// The first rule that all functions together break.
    pub(crate) fn check_total(&self) -> Result<(), String> {
        within(self.joined, JOINED_TOTAL_MAX, "values alive at branches (locals and operands, counted at each)")?;
        within(self.passed, PASSED_TOTAL_MAX, "parameters and results in its calls")
    }

    /// Walks over a function and validates it on the way, because only the validator knows how high the stack is.
    pub(crate) fn of(
        function: FuncToValidate<ValidatorResources>,
        body: &FunctionBody<'_>,
        allocations: &mut FuncValidatorAllocations,
    ) -> Result<Self, BinaryReaderError> {
        let own = function.resources.sub_type_at(function.ty).map_or(0, arity);
        let mut validator = function.into_validator(std::mem::take(allocations));
        let mut reader = body.get_binary_reader();
        validator.read_locals(&mut reader)?;
        let mut operators = wasmparser::OperatorsReader::new(reader);
        let mut walk = Walk { effort: Self { passed: own, ..Self::default() }, loops: 0 };
        while !operators.eof() {
            let (operator, offset) = operators.read_with_offset()?;
            let before = walk.before(&operator, &validator);
            validator.op(offset, &operator)?;
            walk.after(&operator, before, &validator);
        }
        operators.finish()?;
        *allocations = validator.into_allocations();
        Ok(walk.effort)
    }
}

impl AddAssign for Effort {
    /// The effort for both: the deeper nesting, and the sums of what is counted.
    fn add_assign(&mut self, other: Self) {
        self.nesting = self.nesting.max(other.nesting);
        self.loops = self.loops.max(other.loops);
        self.joined = self.joined.saturating_add(other.joined);
        self.branches = self.branches.saturating_add(other.branches);
        self.passed = self.passed.saturating_add(other.passed);
    }
}

struct Walk {
    effort: Effort,
    /// Around the current instruction.
    loops: u64,
}

impl Walk {
    /// The values alive before an instruction; also notes a loop that ends with it.
    fn before(&mut self, operator: &Operator<'_>, validator: &FuncValidator<ValidatorResources>) -> u64 {
        let ends_loop = || validator.get_control_frame(0).is_some_and(|frame| frame.kind == FrameKind::Loop);
        if matches!(operator, Operator::End) && ends_loop() {
            self.loops -= 1;
        }
        let operands = u64::from(validator.operand_stack_height());
        let operands = match operator {
            // What goes with the index to a target is passed on through each block around it: 100 values at 2,000
            // targets inside each other need 2.4 GB.
            Operator::BrTable { .. } => operands.saturating_sub(1) * u64::from(validator.control_stack_height()) + 1,
            _ => operands,
        };
        u64::from(validator.len_locals()) + operands
    }

    /// Counts an instruction that was found valid.
    fn after(&mut self, operator: &Operator<'_>, alive: u64, validator: &FuncValidator<ValidatorResources>) {
        let places = match operator {
            Operator::Loop { .. } => {
                self.loops += 1;
                1
            }
            Operator::BrTable { targets } => u64::from(targets.len()) + 1,
            Operator::Block { .. }
            | Operator::If { .. }
            | Operator::Else
            | Operator::End
            | Operator::Br { .. }
            | Operator::BrIf { .. }
            | Operator::Return => 1,
            Operator::Call { function_index } => {
                let resources = validator.resources();
                let callee = resources.type_index_of_function(*function_index);
                self.effort.passed += callee.and_then(|index| resources.sub_type_at(index)).map_or(0, arity);
                0
            }
            Operator::CallIndirect { type_index, .. } => {
                self.effort.passed += validator.resources().sub_type_at(*type_index).map_or(0, arity);
                0
            }
            _ => 0,
        };
        self.effort.branches += u64::from(places > 0);
        self.effort.joined = self.effort.joined.saturating_add(places.saturating_mul(alive + self.loops));
        self.effort.loops = self.effort.loops.max(self.loops);
        // The function itself is the outermost frame.
        self.effort.nesting = self.effort.nesting.max(u64::from(validator.control_stack_height()).saturating_sub(1));
    }
}

fn within(has: u64, max: u64, of: &str) -> Result<(), String> {
    if has > max { Err(format!("has {has} {of}, and the host compiles at most {max}")) } else { Ok(()) }
}

fn arity(callee: &SubType) -> u64 {
    let signature = callee.unwrap_func();
    (signature.params().len() + signature.results().len()) as u64
}
