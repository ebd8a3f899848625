import {
  BackendError,
  type Backend,
  type BackendLimits,
  type CompositeOp,
  type DeviceBuffer,
  type Executable,
  type Program,
  type SizedProgram,
} from '@shardwise/core/spec';
import { compile, type CompileHost, temporaryBytes } from './run/compile.ts';
import { BUFFER_ALIGNMENT_BYTES } from './run/executable.ts';
import type { FallbackEngine } from './plan/partition/fallback-engine.ts';
import type { Arena, ArenaUsage } from './memory/arena.ts';
import { Scratch } from './memory/scratch.ts';
import type { Loops, LoopsBy } from './engines/loops/loops.ts';
import type { Products, ProductsBy } from './engines/products/products.ts';
import { WorkQueue } from './run/work-queue.ts';

const native: readonly CompositeOp[] = [
  'sigmoid',
  'relu',
  'gelu',
  'geluGrad',
  'softmax',
  'softmaxGrad',
  'logSoftmax',
  'logSoftmaxGrad',
  'layerNorm',
  'layerNormInputGrad',
  'layerNormWeightGrad',
  'rmsNorm',
  'rmsNormInputGrad',
  'rmsNormWeightGrad',
  'groupedMatmul',
  'groupedMatmulWeight',
];
/** Machine code computes these block by block, with products and loops. */
const attention: readonly CompositeOp[] = [
  'attention',
  'attentionLogSumExp',
  'attentionQueryGrad',
  'attentionKeyGrad',
  'attentionValueGrad',
  'pagedAttention',
];

/** The parts that make up a backend. */
export interface CpuParts {
  readonly name: CpuBackend['name'];
  readonly arena: Arena;
  readonly products: Products;
  readonly loops: Loops;
  readonly fallback: FallbackEngine;
}

/** A backend that computes on the CPU, in the memory that holds its buffers. */
export class CpuBackend implements Backend {
  readonly specificationVersion = 1;
  readonly name: 'cpu' | 'wasm';
  readonly limits: BackendLimits;
  readonly #arena: Arena;
  readonly #scratch: Scratch;
  readonly #fallback: FallbackEngine;
  readonly #products: Products;
  readonly #loops: Loops;
  readonly #queue = new WorkQueue();

  constructor({ name, arena, products, loops, fallback }: CpuParts) {
    this.name = name;
    this.limits = {
      dtypes: new Set(['f32', 'i32', 'bool']),
      native: new Set([
        ...native,
        ...(products.by.by === 'own' && loops.code !== null ? attention : []),
        ...(products.own?.blocks ? (['blockedLinear'] as const) : []),
      ]),
      alignment: BUFFER_ALIGNMENT_BYTES,
    };
    this.#products = products;
    this.#loops = loops;
    this.#arena = arena;
    this.#scratch = new Scratch(arena);
    this.#fallback = fallback;
  }

  get description(): string {
    return describe(this.name, this.#products.by, this.#loops.by);
  }

  /** What computes matrix products. If it is not machine code, it also says why. */
  get products(): ProductsBy {
    return this.#products.by;
  }

  /** What runs loops over elements. If it is WebAssembly, it also says why. */
  get loops(): LoopsBy {
    return this.#loops.by;
  }

  /** How many bytes of the arena are in use. Temporary values of compiled programs count. */
  usage(): ArenaUsage {
    return this.#arena.usage();
  }

  alloc(byteLength: number): DeviceBuffer {
    return this.#arena.alloc(byteLength);
  }

  /** The memory stays in use until pending runs have ended. */
  free(buffer: DeviceBuffer): void {
    this.#enqueue(this.#arena.retire(buffer));
  }

  write(buffer: DeviceBuffer, bytes: Uint8Array): void {
    const own = this.#arena.own(buffer);
    if (bytes.byteLength !== own.byteLength) {
      throw new BackendError(
        {
          asked: `to write ${bytes.byteLength} bytes`,
          found: `a buffer of ${own.byteLength} bytes`,
          todo: 'Write all of a buffer or of a sub-buffer',
        },
        { writtenBytes: bytes.byteLength, bufferBytes: own.byteLength },
      );
    }
    if (this.#queue.idle) {
      this.#arena.bytes(own).set(bytes);
    } else {
      const copy = bytes.slice();
      this.#enqueue(() => this.#arena.bytes(own).set(copy));
    }
  }

  async read(
    buffer: DeviceBuffer,
    target: Uint8Array = new Uint8Array(buffer.byteLength),
  ): Promise<Uint8Array> {
    const own = this.#arena.own(buffer);
    await this.#queue.run(async () => target.set(this.#arena.bytes(own)));
    return target;
  }

  /** The bytes contain the result of a run when its promise, or `sync`, has settled. */
  map(buffer: DeviceBuffer): Uint8Array {
    return this.#arena.bytes(this.#arena.own(buffer));
  }

  compile(program: Program): Promise<Executable> {
    return compile(program, this.#host);
  }

  temporaryBytes(program: Program): number {
    return temporaryBytes(program, this.#host);
  }

  async compileSized(program: SizedProgram): Promise<Executable | undefined> {
    const { compileSized } = await import('./run/compile-sized.ts');
    return compileSized(program, this.#host);
  }

  get #host(): CompileHost {
    return {
      arena: this.#arena,
      scratch: this.#scratch,
      queue: this.#queue,
      products: this.#products,
      loops: this.#loops.code,
      fallback: this.#fallback,
    };
  }

  sync(): Promise<void> {
    return this.#queue.drained();
  }

  #enqueue(task: () => void): void {
    if (this.#queue.idle) task();
    else void this.#queue.run(async () => task());
  }
}

/**
 * Says what computes a backend's matrix products and what runs its loops. Where this is not machine code, it says why.
 */
export function describe(name: 'cpu' | 'wasm', products: ProductsBy, loops: LoopsBy): string {
  return `${name}: ${describeProducts(products)}; ${describeLoops(loops)}`;
}

function describeProducts(products: ProductsBy): string {
  if (products.by !== 'own') return `products by ${names[products.by]}, as ${products.reason}`;
  const { f32, bf16 } = products.instructions;
  return `products in machine code (${f32}, bf16 by ${bf16})`;
}

function describeLoops(loops: LoopsBy): string {
  if (loops.by !== 'own') return `loops by ${names[loops.by]}, as ${loops.reason}`;
  const { instructions, refusal } = loops;
  const later = refusal === undefined ? '' : `, new ones by WebAssembly, as ${refusal}`;
  return `loops in machine code (${instructions})${later}`;
}

const names = { onnxruntime: 'ONNX Runtime', webassembly: 'WebAssembly' } as const;
