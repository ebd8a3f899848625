import type { Crew } from './crew.ts';
import { packedBytesOf } from './operand-panels.ts';
import { planTasksWithLoops } from './plan-tasks.ts';
import type { PlannedTasks } from './planned-tasks.ts';
import { addressOf as hostAddress } from '../../memory/host-address.ts';
import type { ProductCode } from '../../emit/products/product-code.ts';
import { operandNames, createFrame, type Frame } from '../../emit/products/task-layout.ts';
import type { BlockLoop, CallAddress } from './block-loops.ts';
import { splitProducts } from './split-products.ts';
import type { MatrixProduct } from '../../program/work/matrix-product.ts';
import { bytesOfResult } from '../../program/work/product-kinds.ts';

/** What all products of one backend share. */
export interface ProductResources {
  readonly code: ProductCode;
  readonly plannedTasks: PlannedTasks;
  readonly threads: number;
  /** Who shares parts within a microsecond. Null: other threads take a call of the pool for each part. */
  readonly crew: Crew | null;
  /** Returns memory for the packed operands of a thread. All products that need no more share it. */
  packedOf(thread: number, byteLength: number): Uint8Array;
  /**
   * Returns memory for the f32 scores of a block (even slots) or for 16-bit weights (odd slots). All products that need
   * no more share it.
   */
  tile(slot: number, byteLength: number): Uint8Array;
  /** Whether calls may run on other threads. */
  readonly canOverlap: boolean;
  /** Whether products leave this thread to other work, if there is some. Otherwise they run in place, one after the other. */
  readonly leavesThread: boolean;
}

/** What one thread computes of some products. */
export interface ProductPart {
  readonly frame: Frame;
  readonly frameAddress: bigint;
  /** The tasks, and the memory for packed operands. The frame has the addresses of both, so both must stay alive. */
  readonly tasks: BigUint64Array;
  readonly packed: Uint8Array;
}

/** Divides products into parts, one for each thread. */
export function productParts(
  products: readonly MatrixProduct[],
  resources: ProductResources,
): readonly ProductPart[] {
  const { plannedTasks } = resources;
  return splitProducts(products, resources).map((part, thread) =>
    partOf(part, plannedTasks.of(part), thread, resources),
  );
}

/** Makes a part, which one thread runs, of the tasks of some products. */
function partOf(
  products: readonly MatrixProduct[],
  tasks: BigUint64Array,
  thread: number,
  resources: ProductResources,
): ProductPart {
  const frame = createFrame();
  const packed = resources.packedOf(thread, packedBytesOf(products, resources.code));
  frame[operandNames.indexOf('packed')] = hostAddress(packed);
  frame[operandNames.indexOf('tasks')] = hostAddress(new Uint8Array(tasks.buffer));
  return { frame, frameAddress: hostAddress(new Uint8Array(frame.buffer)), tasks, packed };
}

/** Sets where left, right, result and addend lie. This holds until the next call. */
export function placeParts(parts: readonly ProductPart[], addresses: readonly bigint[]): void {
  for (const { frame } of parts) frame.set(addresses);
}

/**
 * Runs the parts. Returns undefined if they are done already. With `elsewhere`, the event loop stays free meanwhile, if
 * possible.
 */
export function runParts(
  parts: readonly ProductPart[],
  { code, crew, leavesThread }: ProductResources,
  elsewhere: boolean,
): Promise<unknown> | undefined {
  const leaves = elsewhere && leavesThread;
  if (!leaves && crew !== null && parts.length > 1) {
    crew.run(parts);
    return undefined;
  }
  const [first] = parts;
  const others = leaves ? parts : parts.slice(1);
  const pending = others.map(({ frame }) => runElsewhere(code, frame));
  if (first !== undefined && !leaves) code.run(first.frame);
  return pending.length > 0 ? Promise.all(pending) : undefined;
}

/** Runs a part on a thread of Node's pool. */
function runElsewhere(code: ProductCode, frame: Frame): Promise<void> {
  return new Promise((resolve, reject) => {
    code.run.async(frame, (error) => (error === null ? resolve() : reject(error)));
  });
}

/**
 * What one thread computes of a product and of the loops on its rows. `addresses` says which words of its tasks are
 * addresses that the loops take.
 */
export interface PartWithLoops {
  readonly part: ProductPart;
  readonly addresses: readonly CallAddress[];
}

/**
 * Divides a product into parts for threads. Each part has the loops that run on its rows, block by block. Returns
 * undefined if the threads divide the columns, because no block has whole rows then.
 */
export function partsWithLoops(
  product: MatrixProduct,
  loops: readonly BlockLoop[],
  resources: ProductResources,
): readonly PartWithLoops[] | undefined {
  const { code } = resources;
  const split = splitProducts([product], resources);
  const rowBytes = bytesOfResult(product.kind) * product.result.rowStride;
  const parts: PartWithLoops[] = [];
  for (const [thread, [own]] of split.entries()) {
    if (own === undefined || own.columns !== product.columns) return undefined;
    const firstRow = (own.result.byteOffset - product.result.byteOffset) / rowBytes;
    const { words, addresses } = planTasksWithLoops(own, code, loops, firstRow);
    parts.push({ part: partOf([own], words, thread, resources), addresses });
  }
  return parts;
}
