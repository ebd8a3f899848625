import { packedBytesOf, planTasks } from './plan-tasks.ts';
import { splitProducts } from './split-products.ts';
import { addressOf as hostAddress } from '../../memory/host-address.ts';
import type { MatrixProduct } from '../../program/work/matrix-product.ts';
import type { ProductCode } from '../../emit/products/product-code.ts';
import { operandNames, createFrame, type Frame } from '../../emit/products/task-layout.ts';

/** What all product pieces of one backend share. */
export interface ProductResources {
  readonly code: ProductCode;
  readonly threads: number;
  /** Returns memory for the packed operands of a thread. All pieces that need no more share it. */
  packedOf(thread: number, byteLength: number): Uint8Array;
  /**
   * Returns memory for the f32 scores of a block (even slots) or for 16-bit weights (odd slots). All pieces that need
   * no more share it.
   */
  tile(slot: number, byteLength: number): Uint8Array;
  /** Whether calls may run on other threads. */
  readonly canOverlap: boolean;
}

/** What one thread computes of some products. */
export interface ProductPart {
  readonly frame: Frame;
  /** The tasks, and the memory for packed operands. The frame has the addresses of both, so both must stay alive. */
  readonly tasks: BigUint64Array;
  readonly packed: Uint8Array;
}

/** Divides products into parts, one for each thread. */
export function productParts(
  products: readonly MatrixProduct[],
  resources: ProductResources,
): readonly ProductPart[] {
  const { code, threads, canOverlap } = resources;
  return splitProducts(products, canOverlap ? threads : 1, code).map((part, thread) =>
    partOf(part, planTasks(part, code), thread, resources),
  );
}

/** Makes a part, which one thread runs, of the tasks of some products. */
export function partOf(
  products: readonly MatrixProduct[],
  tasks: BigUint64Array,
  thread: number,
  resources: ProductResources,
): ProductPart {
  const frame = createFrame();
  const packed = resources.packedOf(thread, packedBytesOf(products, resources.code));
  frame[operandNames.indexOf('packed')] = hostAddress(packed);
  frame[operandNames.indexOf('tasks')] = hostAddress(new Uint8Array(tasks.buffer));
  return { frame, tasks, packed };
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
  { code, canOverlap }: ProductResources,
  elsewhere: boolean,
): Promise<unknown> | undefined {
  const leaves = elsewhere && canOverlap;
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
