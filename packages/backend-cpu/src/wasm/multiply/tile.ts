import { encodeModule, f32x4, FunctionBuilder, v128, usize } from '@shardwise/wasm-assembler';

/** How large a tile of a product is that lies in registers, and by which instruction it is summed. */
export interface Tile {
  readonly rows: number;
  /** A multiple of 4. */
  readonly columns: number;
  readonly isFused: boolean;
}

let known: Tile | undefined;

/** The tile for this engine, found out once. Of 16 registers, sums and operands leave none. */
export function tileOf(): Tile {
  known ??= { rows: 6, columns: 8, isFused: hasMultiplyAdd() };
  return known;
}

/** Whether the engine multiplies and adds by one instruction. */
function hasMultiplyAdd(): boolean {
  const fn = new FunctionBuilder(1);
  const at = fn.parameter(0);
  const one = fn.let(v128.load(usize.add(at, usize.const(0))));
  fn.do(v128.store(at, f32x4.relaxedMadd(one, one, one)));
  const type = { shared: true, width: 'narrow' } as const;
  return WebAssembly.validate(encodeModule(new Map([['madd', fn]]), type));
}
