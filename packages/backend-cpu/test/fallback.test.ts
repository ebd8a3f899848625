import { readFileSync } from 'node:fs';
import { arch, platform } from 'node:os';
import { createSharedMemory } from '@shardwise/wasm-assembler';
import { afterEach, beforeEach, describe, expect, it, type MockInstance, vi } from 'vitest';
import { CpuBackend } from '../src/cpu-backend.ts';
import { elementwiseLoop } from '../src/lanes/elementwise-loop.ts';
import { findLoopMachine, loopMachine, PlacedLoops } from '../src/engines/loops/loop-machine.ts';
import type { LaneLoop } from '../src/lanes/lane-loop.ts';
import {
  type ExecutableMemory,
  placeCode,
  systemExecutableMemory,
} from '../src/memory/executable-memory.ts';
import { instructionSets } from '../src/emit/x64/instruction-sets.ts';
import type { ProcessorFeatures } from '../src/emit/x64/processor.ts';
import { Arena } from '../src/memory/arena.ts';
import { onnxFallback } from '../src/engines/onnx/onnx-fallback.ts';
import { Sessions } from '../src/engines/onnx/sessions.ts';
import { createProducts } from '../src/engines/create-products.ts';
import { createProductCode } from '../src/emit/x64/products/product-code.ts';
import {
  findProductMachine,
  type ProductMachine,
} from '../src/engines/products/product-machine.ts';
import { machine } from './products/support.ts';
import { download, f32, matmul, programOf, unary, upload } from './support.ts';
import type { ProductCode } from '../src/emit/products/product-code.ts';
import type { ProductKind } from '../src/program/work/product-kinds.ts';
import { createLoops } from '../src/engines/loops/loops.ts';

const [newest] = instructionSets;
const hasCode = machine.kind === 'own';
const hasHalves = machine.kind === 'own' && machine.instructions.bf16 !== machine.instructions.f32;

let warn: MockInstance<typeof console.warn>;
beforeEach(() => {
  warn = vi.spyOn(console, 'warn').mockReturnValue(undefined);
});
afterEach(() => {
  warn.mockRestore();
});
const notices = (): unknown[] => warn.mock.calls.map(([text]) => text);

/** The system's pages, except that making page number n executable fails when `refuses(n)` is true. */
function refusing(
  refuses: (page: number) => boolean,
): ExecutableMemory & { readonly held: Set<bigint> } {
  let count = 0;
  const held = new Set<bigint>();
  return {
    held,
    map(byteLength) {
      const address = systemExecutableMemory.map(byteLength);
      if (address !== undefined) held.add(address);
      return address;
    },
    makeExecutable: (address, byteLength) =>
      !refuses(count++) && systemExecutableMemory.makeExecutable(address, byteLength),
    unmap(address, byteLength) {
      held.delete(address);
      systemExecutableMemory.unmap(address, byteLength);
    },
  };
}

/** Faulty code: where it should store a bf16 product as f32, it rounds to bf16 and stores half as many bytes. */
function wrongHalves(code: ProductCode): ProductCode {
  const wrong = (kind: ProductKind): ProductKind =>
    kind === 'bf16 to f32' ? 'bf16 to bf16' : kind;
  return {
    ...code,
    multiply: (kind) => code.multiply(wrong(kind)),
    tile: (kind, source, rows) => code.tile(wrong(kind), source, rows),
  };
}

/** Faulty code that packs every operand as if its elements along k were not adjacent. */
function wrongPacking(code: ProductCode): ProductCode {
  return { ...code, packing: (side, packing) => code.packing(side, packing, false) };
}

function backendOf(
  productMachineOf: () => ProductMachine,
  loops: ReturnType<typeof createLoops>,
): CpuBackend {
  const arena = new Arena(createSharedMemory(2 ** 24));
  const options = { products: 'own', threads: 1, instructions: newest } as const;
  const products = createProducts(arena, options, productMachineOf);
  return new CpuBackend({
    name: 'cpu',
    arena,
    products,
    loops,
    fallback: onnxFallback(new Sessions(1)),
  });
}

/** Shape: x [2, 2] -> exp(x) exp(x). */
async function squareOfExp(backend: CpuBackend): Promise<number[]> {
  const type = f32(2, 2);
  const executable = await backend.compile(
    programOf({
      inputs: [type],
      instructions: [unary('exp', 0, type), matmul(1, 1, type)],
      outputs: [2],
    }),
  );
  const [input, output] = [upload(backend, [0, 0, 0, 0]), backend.alloc(16)];
  await executable.run([input], [output]);
  return download(backend, output);
}

/** Returns a backend that makes its products with this machine, and checks that it computes correctly. */
async function backendWith(found: ProductMachine): Promise<CpuBackend> {
  const backend = backendOf(() => found, createLoops('own', newest));
  expect(await squareOfExp(backend)).toEqual([2, 2, 2, 2]);
  return backend;
}

const processor =
  platform() === 'linux' && arch() === 'x64' ? readFileSync('/proc/cpuinfo', 'utf8') : '';

it.skipIf(!/^flags.* avx2 /m.test(processor))(
  'machine code makes products and runs loops where the processor has AVX2',
  () => {
    expect(machine.kind).toBe('own');
    expect(loopMachine().kind).toBe('own');
  },
);

describe.skipIf(!hasCode)('products whose machine code computes something else', () => {
  it('are made by ONNX Runtime after a notice, and the report says so', async () => {
    const found = findProductMachine(newest, systemExecutableMemory, (features, memory) =>
      wrongPacking(createProductCode(features, memory)),
    );
    expect(notices()).toEqual([
      expect.stringMatching(
        /^shardwise: ONNX Runtime makes products of matrices, as by .+ products of f32 to f32 are not what/,
      ),
    ]);
    const backend = await backendWith(found);
    expect(backend.products.by).toBe('onnxruntime');
    expect(backend.description).toMatch(/products by ONNX Runtime, as by .+ are not what/);
    expect(backend.limits.native.has('attention')).toBe(false);
  });

  it.skipIf(!hasHalves)(
    'are made by older instructions after a notice, where those compute what they should',
    async () => {
      const create = (features: ProcessorFeatures, memory?: ExecutableMemory): ProductCode => {
        const code = createProductCode(features, memory);
        return features.bf16 ? wrongHalves(code) : code;
      };
      const found = findProductMachine(newest, systemExecutableMemory, create);
      expect(found).toMatchObject({
        kind: 'own',
        instructions: { f32: 'AVX-512', bf16: 'AVX-512' },
      });
      expect(notices()).toEqual([
        expect.stringMatching(
          /^shardwise: products of matrices are made by AVX-512, as by AVX-512 and .+ products of bf16 to f32 are not what/,
        ),
      ]);
      const { description } = await backendWith(found);
      expect(description).toContain('products in machine code (AVX-512, bf16 by AVX-512)');
    },
  );
});

describe.skipIf(!hasCode)('where the system refuses executable pages', () => {
  it('ONNX Runtime makes products after a notice, and the report says so', async () => {
    // Page 0 holds the code that asks the processor for its features.
    for (const first of [0, 1]) {
      warn.mockClear();
      const memory = refusing((page) => page >= first);
      const found = findProductMachine(newest, memory);
      expect(notices()).toEqual([
        'shardwise: ONNX Runtime makes products of matrices, as the system refuses to make memory executable',
      ]);
      expect(memory.held.size).toBe(first);
      const backend = await backendWith(found);
      expect(backend.description).toContain(
        'products by ONNX Runtime, as the system refuses to make memory executable',
      );
    }
  });

  it('no machine code runs where the system gives no memory for it', () => {
    const memory = { ...systemExecutableMemory, map: () => undefined };
    const reason = 'the system gives no memory for machine code';
    expect(findProductMachine(newest, memory)).toEqual({ kind: 'none', reason });
    expect(findLoopMachine(newest, memory)).toEqual({ kind: 'webassembly', reason });
    expect(notices()).toHaveLength(2);
  });

  it('memory that may not become executable is given back', () => {
    const memory = refusing(() => true);
    expect(() => placeCode(Uint8Array.of(0xc3), memory)).toThrow(
      /refuses to make memory executable/,
    );
    expect(memory.held.size).toBe(0);
  });

  it('WebAssembly runs loops after a notice, and the report says so', async () => {
    const found = findLoopMachine(
      newest,
      refusing(() => true),
    );
    expect(notices()).toEqual([
      'shardwise: WebAssembly runs loops over elements and rows, as the system refuses to make memory executable',
    ]);
    const backend = backendOf(
      () => machine,
      createLoops('own', newest, () => found),
    );
    expect(await squareOfExp(backend)).toEqual([2, 2, 2, 2]);
    expect(backend.description).toMatch(/loops by WebAssembly, as the system refuses/);
    expect(backend.limits.native.has('attention')).toBe(false);
  });

  it('of loops that come later, WebAssembly runs those, and the report says both', async () => {
    // The first three pages are for the query of the processor's features, the code that calls loops, and the loop that
    // is tried.
    const found = findLoopMachine(
      newest,
      refusing((page) => page >= 3),
    );
    const backend = backendOf(
      () => machine,
      createLoops('own', newest, () => found),
    );
    expect(backend.description).toMatch(/loops in machine code \(AVX[-\d]+\)$/);
    expect(notices()).toEqual([]);
    expect(await squareOfExp(backend)).toEqual([2, 2, 2, 2]);
    expect(backend.description).toMatch(/, new ones by WebAssembly, as the system refuses/);
    expect(notices()).toHaveLength(1);
  });
});

it.skipIf(!hasCode)('loops whose machine code computes something else run in WebAssembly', () => {
  const adds = (): LaneLoop =>
    elementwiseLoop({
      byRows: false,
      loads: [{ dtype: 'f32', access: 'element', elementOffset: 0 }],
      steps: [{ op: 'add', dtype: 'f32', inputDType: 'f32', inputs: [0, 0] }],
      stores: [{ slot: 1, dtype: 'f32' }],
    });
  class AddingLoops extends PlacedLoops {
    override routine(key: string): bigint | undefined {
      return super.routine(key, adds);
    }
  }
  const found = findLoopMachine(
    newest,
    systemExecutableMemory,
    (vectors, memory) => new AddingLoops(vectors, memory),
  );
  const reason = 'machine code does not compute what JavaScript does';
  expect(found).toEqual({ kind: 'webassembly', reason });
  expect(notices()).toEqual([
    `shardwise: WebAssembly runs loops over elements and rows, as ${reason}`,
  ]);
});
