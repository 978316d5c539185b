//! Orders to a server's dashboard, with a data plane that carries them out immediately.

use millstream_report::http::{Answer, Order, Orders, fuzzing};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::instruction::api::{BODY_BYTES, ExtensionApi, list};
use crate::instruction::building::Builder;
use crate::instruction::instruction_table::InstructionTable;
use crate::instruction::running::Instructions;
use crate::shared_memory::region::Region;

/// The time limit of the data plane for compiling an order's module.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server that accepts orders; it processes one input at a time.
struct Server {
    instruction_table: InstructionTable,
    orders: Arc<Orders>,
    instructions: Arc<Mutex<Instructions>>,
}

static SERVER: OnceLock<Mutex<Server>> = OnceLock::new();

fn server() -> Server {
    let (region, _) = Region::create_with(1, true).expect("memory");
    let instruction_table = region.instruction_table().expect("it has one");
    let builder = Builder::start(instruction_table, || ()).expect("a thread");
    let instructions = Arc::new(Mutex::new(Instructions::open(instruction_table, builder)));
    let by_order = Arc::clone(&instructions);
    let names = ["film", "live"].map(str::to_owned).to_vec();
    let api = ExtensionApi::new(region, true, names, move || attend(instruction_table, &by_order));
    let obey = Box::new(move |order: Order| api.obey(&order));
    Server {
        instruction_table,
        orders: Arc::new(Orders { most_bytes: BODY_BYTES, obey }),
        instructions,
    }
}

/// Runs the data plane until it has processed all changes of the table.
fn attend(instruction_table: InstructionTable, instructions: &Mutex<Instructions>) {
    let mut instructions = instructions.lock().unwrap_or_else(PoisonError::into_inner);
    instructions.attend();
    let end = Instant::now() + PATIENCE;
    while instruction_table
        .slots()
        .any(|slot| slot.version() % 2 == 0 && slot.seen() != slot.version())
    {
        assert!(Instant::now() < end, "the data plane does not handle an order");
        instructions.take_built();
        std::thread::yield_now();
    }
}

/// Sends connections to a server without instructions, in turn. Returns the last answer.
///
/// # Panics
/// If the data plane does not process an order in time, or an instruction cannot be shown.
#[must_use]
pub fn orders(connections: &[&[u8]]) -> Vec<u8> {
    let server = SERVER.get_or_init(|| Mutex::new(server()));
    let server = server.lock().unwrap_or_else(PoisonError::into_inner);
    for slot in server.instruction_table.slots().filter(|slot| !slot.is_empty()) {
        slot.remove();
    }
    attend(server.instruction_table, &server.instructions);
    let pages = |path: &str| match path {
        "/instructions" => {
            let all = list(server.instruction_table, &["film", "live"]);
            Answer::Json(serde_json::to_string(&all).expect("it can be shown"))
        }
        _ => Answer::NotFound,
    };
    let mut answer = Vec::new();
    for bytes in connections {
        answer = fuzzing::converse(bytes, "/instructions", pages, &server.orders);
    }
    answer
}
