import { Assembler } from '../machine-code/assembler.ts';
import { codeAt, placeCode } from '../machine-code/code-pages.ts';
import { at, rax, rcx, rdi, tmm, zmm } from '../machine-code/operands.ts';
import { type ProcessorFeatures, processorFeatures } from '../machine-code/processor.ts';
import { addressOf } from '../onnx/runtime/api.ts';
import type { RegisterPeak } from '../register-peak.ts';

const RUNS = 9;
const ITERATIONS = 50_000;
/** Sums that do not wait for each other. */
const SUMS = 24;

/** As registerPeak of the package, at once. */
export function measurePeak(dtype: 'f32' | 'bf16'): RegisterPeak | undefined {
  try {
    const features = processorFeatures();
    if (!features.avx512 || (dtype === 'bf16' && !features.bf16)) return undefined;
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
  /** Of one turn. */
  readonly flops: number;
}

function loopOf(dtype: 'f32' | 'bf16', { tiles }: ProcessorFeatures): Loop {
  const code = new Assembler();
  const loop = code.label();
  code.mov(rcx, at(rdi));
  if (dtype === 'bf16' && tiles) {
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
  const instruction = dtype === 'f32' ? 'vfmadd231ps' : 'vdpbf16ps';
  for (let vector = 0; vector < 32; vector++) {
    code.ternary('vpxord', zmm(vector), zmm(vector), zmm(vector));
  }
  code.entry(loop);
  for (let sum = 0; sum < SUMS; sum++) code.ternary(instruction, zmm(sum), zmm(30), zmm(31));
  emitTurn(code, loop);
  code.vzeroupper();
  code.ret();
  return { code, instruction, flops: SUMS * 2 * 16 * (dtype === 'f32' ? 1 : 2) };
}

function emitTurn(code: Assembler, loop: ReturnType<Assembler['label']>): void {
  code.sub(rcx, 1);
  code.jumpIf('notEqual', loop);
}

/** Eight tiles of 16 rows of 64 bytes. */
function tileSizes(): Uint8Array {
  const sizes = new Uint8Array(new ArrayBuffer(64));
  sizes[0] = 1;
  new Uint16Array(sizes.buffer, 16, 8).fill(64);
  sizes.fill(16, 48, 56);
  return sizes;
}
