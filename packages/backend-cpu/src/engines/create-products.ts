import { linkAttention } from './attention/link-attention.ts';
import { PagedPlans } from './attention/paged-attention.ts';
import { blockedProductOf } from '../plan/products/blocked-product-of.ts';
import { attentionPlanning } from '../plan/attention/plan-attention-instructions.ts';
import type { InstructionSet } from '../emit/x64/instruction-sets.ts';
import type { Arena } from '../memory/arena.ts';
import { callThreads, hasFreeCore, poolThreads } from '../memory/native-calls.ts';
import { Crew, MAX_HELPERS } from './products/crew.ts';
import { packedBytes } from './products/operand-panels.ts';
import { PlannedTasks } from './products/planned-tasks.ts';
import { productMachine } from './products/product-machine.ts';
import { CompiledGroupedProduct } from './products/compiled-grouped-product.ts';
import { CompiledProduct } from './products/compiled-product.ts';
import type { Products } from './products/products.ts';
import type { ProductResources } from './products/run-parts.ts';
import { wasmProducts } from './products/wasm-products.ts';
import { alignedBytes } from '../memory/host-address.ts';

export interface ProductsOptions {
  readonly products: 'own' | 'onnxruntime';
  /** How many threads one product may use. */
  readonly threads: number;
  /** The newest instructions that may be used. */
  readonly instructions: InstructionSet;
  /** Whether machine code computes all products of f32. Default: false. */
  readonly batchInvariant?: boolean;
}

export function createProducts(
  arena: Arena,
  { products, threads, instructions, batchInvariant = false }: ProductsOptions,
  machineOf: typeof productMachine = productMachine,
): Products {
  if (products === 'onnxruntime') return withoutOwn(arena, 'it was asked for');
  const machine = machineOf(instructions);
  if (machine.kind === 'none') {
    if (batchInvariant) warnOfBits(machine.reason);
    return withoutOwn(arena, machine.reason);
  }
  const pagedPlans = new PagedPlans();
  let made: ProductResources | undefined;
  const resources = (): ProductResources => (made ??= resourcesOf(machine.code, threads));
  return {
    by: { by: 'own', instructions: machine.instructions },
    own: {
      bf16: true,
      thin: batchInvariant,
      ...(machine.code.decodesBlocks ? { blocks: blockedProductOf } : {}),
    },
    link: (memory, product, epilogue) =>
      new CompiledProduct(memory, product, resources(), epilogue),
    linkGrouped: (memory, product) => new CompiledGroupedProduct(memory, product, resources()),
    attention: {
      planning: attentionPlanning,
      link: (memory, work, loops) => linkAttention(memory, work, resources(), loops, pagedPlans),
    },
  };
}

function resourcesOf(code: ProductResources['code'], threads: number): ProductResources {
  const canOverlap = callThreads();
  // Some threads of the pool stay free, so that files can be read meanwhile.
  const mostHelpers = Math.min(MAX_HELPERS, poolThreads() - 2);
  const hasCrew = canOverlap && threads > 1 && threads - 1 <= mostHelpers;
  return {
    code,
    plannedTasks: new PlannedTasks(code),
    threads,
    crew: hasCrew && code.crew !== undefined ? new Crew(code.crew, threads) : null,
    packedOf: sharedMemory(packedBytes),
    tile: sharedMemory(0),
    canOverlap,
    leavesThread: canOverlap && hasFreeCore(threads),
  };
}

/**
 * Keeps one memory for each number. If more bytes are needed, a larger memory replaces it, and users of the old one
 * keep that.
 */
function sharedMemory(leastBytes: number): ProductResources['packedOf'] {
  const memories: Uint8Array[] = [];
  return (number, byteLength) => {
    const known = memories[number];
    if (known !== undefined && known.byteLength >= byteLength) return known;
    const larger = alignedBytes(Math.max(leastBytes, byteLength));
    memories[number] = larger;
    return larger;
  };
}

function warnOfBits(reason: string): void {
  console.warn(
    `shardwise: products have other bits beside other rows, as ONNX Runtime computes them: ${reason}`,
  );
}

/** ONNX Runtime has no products of rows in groups, so WebAssembly computes these. */
function withoutOwn(arena: Arena, reason: string): Products {
  const inGroups = wasmProducts(arena, reason);
  const link = (): never => {
    throw new RangeError('no products are ours');
  };
  return {
    by: { by: 'onnxruntime', reason },
    own: null,
    attention: null,
    link,
    loadGrouped: async () => inGroups.loadGrouped?.(),
    linkGrouped: (memory, product) => inGroups.linkGrouped(memory, product),
  };
}
