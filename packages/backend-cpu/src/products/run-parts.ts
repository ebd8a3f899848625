import { addressOf as hostAddress } from '../onnx/runtime/api.ts';
import { type MatrixProduct, packedBytesOf, planTasks } from './plan-tasks.ts';
import type { ProductCode } from './product-code.ts';
import { createFrame, type Frame } from './frame.ts';
import { splitProducts } from './split-products.ts';
import { operandNames } from './task-layout.ts';

/** What pieces of one backend share. */
export interface ProductResources {
  readonly code: ProductCode;
  readonly threads: number;
  /** Memory for packed operands of a thread, which all pieces share that need no more. */
  packedOf(thread: number, byteLength: number): Uint8Array;
  /** Memory of f32 scores of a block (even slots), or of 16-bit weights, which all pieces share that need no more. */
  tile(slot: number, byteLength: number): Uint8Array;
  /** Whether calls may run on other threads. */
  readonly canOverlap: boolean;
}

/** What one thread does of products. */
export interface ProductPart {
  readonly frame: Frame;
  /** The frame has the addresses of both. */
  readonly tasks: BigUint64Array;
  readonly packed: Uint8Array;
}

/** Products as the parts that threads take. */
export function productParts(
  products: readonly MatrixProduct[],
  resources: ProductResources,
): readonly ProductPart[] {
  const { code, threads, canOverlap } = resources;
  return splitProducts(products, canOverlap ? threads : 1, code).map((part, thread) =>
    partOf(part, planTasks(part, code), thread, resources),
  );
}

/** The tasks of some products, as the part that a thread takes. */
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

/** Says where left, right, result and addend lie, until it is said again. */
export function placeParts(parts: readonly ProductPart[], addresses: readonly bigint[]): void {
  for (const { frame } of parts) frame.set(addresses);
}

/** Undefined where they have run when it returns. With `elsewhere`, the event loop is left free meanwhile. */
export function runParts(
  parts: readonly ProductPart[],
  { code, canOverlap }: ProductResources,
  elsewhere: boolean,
): Promise<unknown> | undefined {
  const leaves = elsewhere && canOverlap;
  const [first, ...others] = parts;
  const pending = (leaves ? parts : others).map(({ frame }) => runElsewhere(code, frame));
  if (first !== undefined && !leaves) code.run(first.frame);
  return pending.length > 0 ? Promise.all(pending) : undefined;
}

/** On a thread of Node's pool. */
function runElsewhere(code: ProductCode, frame: Frame): Promise<void> {
  return new Promise((resolve, reject) => {
    code.run.async(frame, (error) => (error === null ? resolve() : reject(error)));
  });
}
