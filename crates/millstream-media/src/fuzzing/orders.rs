//! Orders to a server's dashboard, with a data plane that carries them out immediately.

use millstream_report::http::{Answer, WriteHandler, WriteRequest, fuzzing};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::instruction::api::{BODY_BYTES, ExtensionApi, list};
use crate::instruction::compiler::Compiler;
use crate::instruction::runtime::Instructions;
use crate::shared_memory::instruction_table::InstructionTable;
use crate::shared_memory::region::Region;

/// The time limit of the data plane for compiling an order's module.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that accepts orders; it processes one input at a time.
struct Server {
    instruction_table: InstructionTable,
    orders: Arc<WriteHandler>,
    instructions: Arc<Mutex<Instructions>>,
}

static SERVER: OnceLock<Mutex<Server>> = OnceLock::new();

fn server() -> Server {
    let (region, _) = Region::create_with(1, true).expect("memory");
    let instruction_table = region.instruction_table().expect("a region with an instruction table");
    let builder = Compiler::start(instruction_table, || ()).expect("a thread");
    let instructions = Arc::new(Mutex::new(Instructions::open(instruction_table, builder)));
    let by_order = Arc::clone(&instructions);
    let names = ["film", "live"].map(str::to_owned).to_vec();
    let api = ExtensionApi::new(region, true, names, move || {
        run_data_plane(instruction_table, &by_order)
    });
    let execute = Box::new(move |order: WriteRequest| api.execute(&order));
    Server {
        instruction_table,
        orders: Arc::new(WriteHandler { max_bytes: BODY_BYTES, handle: execute }),
        instructions,
    }
}

/// Runs the data plane until it has processed all changes of the table.
fn run_data_plane(instruction_table: InstructionTable, instructions: &Mutex<Instructions>) {
    let mut instructions = instructions.lock().unwrap_or_else(PoisonError::into_inner);
    instructions.process_changes();
    let end = Instant::now() + COMPILE_TIMEOUT;
    while instruction_table
        .slots()
        .any(|slot| slot.version() % 2 == 0 && slot.processed_version() != slot.version())
    {
        assert!(Instant::now() < end, "the data plane did not process an order in time");
        instructions.install_built();
        std::thread::yield_now();
    }
}

/// Sends connections to a server without instructions, in turn. Returns the last answer.
///
/// # Panics
/// Panics if the data plane does not process an order in time, or an instruction cannot be shown.
#[must_use]
pub fn orders(connections: &[&[u8]]) -> Vec<u8> {
    let server = SERVER.get_or_init(|| Mutex::new(server()));
    let server = server.lock().unwrap_or_else(PoisonError::into_inner);
    for slot in server.instruction_table.slots().filter(|slot| !slot.is_empty()) {
        slot.remove();
    }
    run_data_plane(server.instruction_table, &server.instructions);
    let pages = |path: &str| match path {
        "/instructions" => {
            let all = list(server.instruction_table, &["film", "live"]);
            Answer::Json(serde_json::to_string(&all).expect("serializable statuses"))
        }
        _ => Answer::NotFound,
    };
    let mut answer = Vec::new();
    for bytes in connections {
        answer = fuzzing::respond_to(bytes, "/instructions", pages, &server.orders);
    }
    answer
}
