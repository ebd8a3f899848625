/**
 * The few parts of the WebAssembly binary format that the reduction kernels need
 * (WebAssembly Core Specification 2.0, chapter 5).
 */
export type Code = readonly number[];

export const i32 = 0x7f;
export const f64 = 0x7c;
export const f32 = 0x7d;
export const v128 = 0x7b;

export interface WasmFunction {
  readonly name: string;
  readonly params: readonly number[];
  /** Types of the locals after the parameters. */
  readonly locals: readonly number[];
  readonly body: Code;
}

const MAGIC_AND_VERSION: Code = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00];
const block: Code = [0x02, 0x40];
const loop: Code = [0x03, 0x40];
const i32Eqz: Code = [0x45];
const branch = (depth: number): Code => [0x0c, depth];
const branchIf = (depth: number): Code => [0x0d, depth];
const end: Code = [0x0b];

/** Whether threads share a memory; a module takes one kind only. */
export type MemoryKind = 'shared' | 'unshared';

/** A module that imports `env.memory` and exports the functions, which return nothing. */
export function assemble(
  functions: readonly WasmFunction[],
  memoryKind: MemoryKind,
): Uint8Array<ArrayBuffer> {
  const MAX_PAGES = 65536;
  const types = functions.map((f) => [0x60, ...vector(f.params.map((type) => [type])), 0]);
  const memoryImport = [
    ...text('env'),
    ...text('memory'),
    0x02,
    memoryKind === 'shared' ? 0x03 : 0x01,
    ...u32(0),
    ...u32(MAX_PAGES),
  ];
  const exports = functions.map((f, index) => [...text(f.name), 0x00, ...u32(index)]);
  const bodies = functions.map((f) => {
    const locals = vector(f.locals.map((type) => [1, type]));
    const code = [...locals, ...f.body, ...end];
    return [...u32(code.length), ...code];
  });
  return Uint8Array.from([
    ...MAGIC_AND_VERSION,
    ...section(1, vector(types)),
    ...section(2, vector([memoryImport])),
    ...section(3, vector(functions.map((_, index) => u32(index)))),
    ...section(7, vector(exports)),
    ...section(10, vector(bodies)),
  ]);
}

export const get = (local: number): Code => [0x20, ...u32(local)];
export const set = (local: number): Code => [0x21, ...u32(local)];
export const i32Const = (value: number): Code => [0x41, ...signed(value)];
export const i32Add: Code = [0x6a];
export const i32Sub: Code = [0x6b];
export const i32LtU: Code = [0x49];
/** Address on the stack. */
export const i32Load = (offset: number): Code => [0x28, 2, ...u32(offset)];
/** Destination, source and byte length on the stack. */
export const memoryCopy: Code = [0xfc, 0x0a, 0x00, 0x00];
export const simd = (opcode: number): Code => [0xfd, ...u32(opcode)];

/** Runs `body` while `condition` leaves a non-zero i32. */
export function whileLoop(condition: Code, body: Code): Code {
  const toLoop = branch(0);
  const outOfBlock = branchIf(1);
  return [
    ...block,
    ...loop,
    ...condition,
    ...i32Eqz,
    ...outOfBlock,
    ...body,
    ...toLoop,
    ...end,
    ...end,
  ];
}

export function increment(local: number, by: number): Code {
  return [...get(local), ...i32Const(by), ...i32Add, ...set(local)];
}

/** Unsigned LEB128. */
export function u32(value: number): Code {
  const bytes: number[] = [];
  let rest = value;
  do {
    const byte = rest & 0x7f;
    rest >>>= 7;
    bytes.push(rest === 0 ? byte : byte | 0x80);
  } while (rest !== 0);
  return bytes;
}

/** Signed LEB128. */
function signed(value: number): Code {
  const bytes: number[] = [];
  let rest = value;
  for (;;) {
    const byte = rest & 0x7f;
    rest >>= 7;
    const done = (rest === 0 && (byte & 0x40) === 0) || (rest === -1 && (byte & 0x40) !== 0);
    bytes.push(done ? byte : byte | 0x80);
    if (done) return bytes;
  }
}

function vector(items: readonly Code[]): Code {
  return [...u32(items.length), ...items.flat()];
}

function section(id: number, content: Code): Code {
  return [id, ...u32(content.length), ...content];
}

function text(value: string): Code {
  return vector([...new TextEncoder().encode(value)].map((byte) => [byte]));
}
