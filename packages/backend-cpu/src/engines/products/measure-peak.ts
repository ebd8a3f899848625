import { Assembler } from '../../emit/x64/assembler.ts';
import { codeAt, placeCode } from '../../memory/executable-memory.ts';
import { at, rax, rcx, rdi, tmm, ymm, zmm } from '../../emit/x64/operands.ts';
import type { InstructionSet } from '../../emit/x64/instruction-sets.ts';
import { addressOf } from '../../memory/host-address.ts';
import {
  type ProcessorFeatures,
  processorFeatures,
  requireVectors,
  upTo,
  halfWayOf,
} from '../../emit/x64/processor.ts';

const RUNS = 9;
const ITERATIONS = 50_000;
/** How many sums are computed at once. They do not wait for each other, and leave registers for two operands. */
const SUMS = { 'AVX-512': 24, AVX2: 12 } as const;

/** The speed of one core of this processor when it reads nothing from memory, in GFLOP/s. */
export interface RegisterPeak {
  readonly instruction: 'vfmadd231ps' | 'vdpbf16ps' | 'tdpbf16ps';
  readonly gigaflops: number;
}

/** Does what the package's `registerPeak` does, synchronously. */
export function measurePeak(
  dtype: 'f32' | 'bf16',
  newest: InstructionSet,
): RegisterPeak | undefined {
  try {
    const features = upTo(newest, processorFeatures());
    const { code, instruction, flops } = loopOf(dtype, features);
    const run = codeAt(placeCode(code.finish()));
    const sizes = tileSizes();
    const operands = new BigUint64Array(new ArrayBuffer(16));
    operands.set([BigInt(ITERATIONS), addressOf(sizes)]);
    let fastestMs = Number.POSITIVE_INFINITY;
    for (let index = 0; index < RUNS; index++) {
      const start = performance.now();
      run(operands);
      fastestMs = Math.min(fastestMs, performance.now() - start);
    }
    return { instruction, gigaflops: (flops * ITERATIONS) / fastestMs / 1e6 };
  } catch {
    return undefined;
  }
}

interface Loop {
  readonly code: Assembler;
  readonly instruction: RegisterPeak['instruction'];
  /** The floating-point operations of one turn of the loop. */
  readonly flops: number;
}

function loopOf(dtype: 'f32' | 'bf16', features: ProcessorFeatures): Loop {
  const vectors = requireVectors(features);
  const way = halfWayOf(features);
  const code = new Assembler();
  const loop = code.label();
  code.mov(rcx, at(rdi));
  if (dtype === 'bf16' && way === 'tiles') {
    code.mov(rax, at(rdi, 8));
    code.ldtilecfg(at(rax));
    for (let tile = 0; tile < 8; tile++) code.tilezero(tmm(tile));
    code.entry(loop);
    for (let sum = 0; sum < 4; sum++)
      code.tdpbf16ps(tmm(sum), tmm(4 + (sum >> 1)), tmm(6 + (sum & 1)));
    emitTurn(code, loop);
    code.tilerelease();
    code.ret();
    return { code, instruction: 'tdpbf16ps', flops: 4 * 2 * 16 * 16 * 32 };
  }
  const isPairs = dtype === 'bf16' && way === 'pairs';
  const instruction = isPairs ? 'vdpbf16ps' : 'vfmadd231ps';
  const [vector, lanes] = vectors === 'AVX-512' ? ([zmm, 16] as const) : ([ymm, 8] as const);
  const sums = SUMS[vectors];
  for (let index = 0; index < sums + 2; index++) {
    code.ternary('vxorps', vector(index), vector(index), vector(index));
  }
  code.entry(loop);
  for (let sum = 0; sum < sums; sum++) {
    code.ternary(instruction, vector(sum), vector(sums), vector(sums + 1));
  }
  emitTurn(code, loop);
  code.vzeroupper();
  code.ret();
  return { code, instruction, flops: sums * 2 * lanes * (isPairs ? 2 : 1) };
}

function emitTurn(code: Assembler, loop: ReturnType<Assembler['label']>): void {
  code.sub(rcx, 1);
  code.jumpIf('notEqual', loop);
}

/** The configuration of eight tiles of 16 rows of 64 bytes. */
function tileSizes(): Uint8Array {
  const sizes = new Uint8Array(new ArrayBuffer(64));
  sizes[0] = 1;
  new Uint16Array(sizes.buffer, 16, 8).fill(64);
  sizes.fill(16, 48, 56);
  return sizes;
}
