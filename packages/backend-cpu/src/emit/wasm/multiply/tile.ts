import { encodeModule, f32x4, FunctionBuilder, v128, usize } from '@shardwise/wasm-assembler';

/** The size of the tile of a product that lies in registers, and whether its sums use a fused multiply-add. */
export interface Tile {
  readonly rows: number;
  /** Must be a multiple of 4. */
  readonly columns: number;
  readonly isFused: boolean;
}

let known: Tile | undefined;

/** The tile for this engine, which is found out once. Its sums and operands take all 16 registers. */
export function tileOf(): Tile {
  known ??= { rows: 6, columns: 8, isFused: hasMultiplyAdd() };
  return known;
}

/** Whether the engine has an instruction that multiplies and adds. */
function hasMultiplyAdd(): boolean {
  const fn = new FunctionBuilder(1);
  const at = fn.parameter(0);
  const one = fn.let(v128.load(usize.add(at, usize.const(0))));
  fn.do(v128.store(at, f32x4.relaxedMadd(one, one, one)));
  const type = { shared: true, width: 'narrow' } as const;
  return WebAssembly.validate(encodeModule(new Map([['madd', fn]]), type));
}
