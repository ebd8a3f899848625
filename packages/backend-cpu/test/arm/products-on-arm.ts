// Runs on an AArch64 processor, or in an emulator of one: computes products in machine code, and prints what came out.
import { backendSuite, runSuite } from '@shardwise/testing';
import { CpuBackend } from '../../src/cpu-backend.ts';
import { createProducts } from '../../src/engines/create-products.ts';
import { plainFallback } from '../../src/engines/plain/plain-fallback.ts';
import { Arena } from '../../src/memory/arena.ts';
import { createMemory } from '../../src/memory/create-memory.ts';
import { furthest } from '../products/product-errors.ts';
import { codes, machine, multiply } from '../products/support.ts';
import type { ArmReport } from './arm-report.ts';

const code = codes['NEON and BFMMLA'];
const ways = [
  ['f32 to f32', 'f32'],
  ['bf16 to f32', 'bf16'],
  ['bf16 to f32', 'f32 as bf16'],
  ['bf16 to bf16', 'bf16'],
] as const;
const shapes = [
  [1, 1, 1],
  [8, 12, 4],
  [9, 13, 3],
  [7, 11, 17],
  [16, 25, 8],
  [3, 17, 1100],
  [64, 33, 520],
  [20, 290, 5],
] as const;

/** The largest errors, in units of what rounding may cause, by kind and packing. */
function errorsOfProducts(): Record<string, number> {
  const errors: Record<string, number> = {};
  for (const [kind, packing] of code === undefined ? [] : ways) {
    let most = 0;
    for (const [rows, columns, depth] of shapes) {
      for (let choice = 0; choice < 4; choice++) {
        const transposes = { transposeLeft: choice % 2 > 0, transposeRight: choice > 1 };
        const of = { kind, packing, rows, columns, depth, scale: 0.5, ...transposes };
        most = Math.max(most, code === undefined ? NaN : furthest(code, of));
      }
    }
    errors[`${kind}, packed as ${packing}`] = most;
  }
  return errors;
}

/** Whether sums of f32 are fused multiply-adds in the order of k: (1 + e)² - (1 + 2 e) is e² then, and not 0. */
function sumsAreFused(): boolean {
  if (code === undefined) return false;
  const of = { kind: 'f32 to f32', packing: 'f32', rows: 1, columns: 1, depth: 2 } as const;
  const e = 2 ** -12;
  const [sum] = multiply(code, of, Float32Array.of(-1, 1 + e), Float32Array.of(1 + 2 * e, 1 + e));
  return sum === e * e;
}

async function contract(): Promise<ArmReport['contract']> {
  if (code === undefined) return null;
  const arena = new Arena(createMemory(2 ** 28));
  const products = createProducts(arena, {
    products: 'own',
    threads: 1,
    instructions: 'AMX-BF16',
  });
  const backend = new CpuBackend({
    name: 'cpu',
    arena,
    products,
    loops: { by: { by: 'webassembly', reason: 'AArch64 has none' }, code: null },
    fallback: plainFallback(arena),
  });
  const failures: string[] = [];
  let passed = 0;
  const suite = backendSuite({ name: backend.description, create: async () => backend });
  await runSuite(suite, ({ groups, name }, outcome) => {
    if (outcome.status === 'passed') passed++;
    if (outcome.status === 'failed') {
      failures.push(`${[...groups, name].join(' > ')}: ${String(outcome.error)}`);
    }
  });
  return { description: backend.description, passed, failures };
}

const report: ArmReport = {
  machine: machine.kind === 'own' ? machine.instructions : machine.reason,
  errors: errorsOfProducts(),
  sumsAreFused: sumsAreFused(),
  contract: await contract(),
};
console.log(JSON.stringify(report));
