import { rankState } from '../ambient.ts';
import type { Page } from '../paging/page.ts';
import type { HostValue, Node } from './node.ts';
import type { Storage } from './storage.ts';

/** Frees the storage of a node that was garbage collected, unless it was freed before. */
const unreachable = new FinalizationRegistry<Storage>((storage) => storage.release());

/** Gives a node device memory of its own. */
export function adoptStorage(node: Node, storage: Storage): void {
  releaseValue(node);
  node.value = { kind: 'device', storage };
  unreachable.register(node, storage, node);
  if (!node.resident && !node.hasOwner) weigh(node, storage.buffer.byteLength);
}

/** The least size of a weight. An array of at least this size takes no memory until something is written to it. */
const WEIGHT_BYTES = 1024 * 1024;

/**
 * A node is a few small objects, so the garbage collector has no reason to collect dropped nodes while device memory
 * runs out. An array of the size of the device memory gives it a reason. Nothing is written to the array, so it takes
 * no memory. Several small results share one array.
 */
function weigh(node: Node, byteLength: number): void {
  rankState.unweighedBytes += byteLength;
  if (rankState.unweighedBytes < WEIGHT_BYTES) return;
  node.weight = new ArrayBuffer(rankState.unweighedBytes);
  rankState.unweighedBytes = 0;
}

/** Frees the memory of a node. Later uses of the node throw an error that names `by`. */
export function freeNode(node: Node, by: string): void {
  releaseValue(node);
  node.value = { kind: 'freed', by };
}

/** Moves a node's value to the host heap, where the garbage collector sees its size. */
export function moveToHost(node: Node, bytes: Uint8Array): void {
  releaseValue(node);
  node.value = { kind: 'host', bytes };
}

/** Moves a leaf's contents out of the device, until a run needs them. */
export function moveToPage(node: Node, page: Page): void {
  releaseValue(node);
  node.value = { kind: 'paged', page };
}

/**
 * The array of a leaf that no run has used yet and that only the leaf owns. The caller overwrites it. Null for other
 * nodes, whose contents only a run can change.
 */
export function unusedBytes(leaf: Node): Uint8Array<ArrayBuffer> | null {
  const { value } = leaf;
  if (leaf.op !== 'input' || value?.kind !== 'host' || value.owned !== true) return null;
  const { buffer, byteOffset, byteLength } = value.bytes;
  if (!(buffer instanceof ArrayBuffer)) return null;
  // Expressions that were built before mean the earlier contents, which are going to be gone.
  leaf.updatedAt = rankState.nextNodeId;
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** The bytes of a value, for a reader who may keep them. */
export function hostBytes({ bytes, owned = false }: HostValue): Uint8Array {
  return owned ? bytes.slice() : bytes;
}

function releaseValue(node: Node): void {
  const { value } = node;
  if (value?.kind === 'host' && value.owned === true) freeBytes(value.bytes);
  if (value?.kind !== 'device') return;
  node.weight?.transfer(0);
  node.weight = null;
  unreachable.unregister(node);
  value.storage.release();
}

/**
 * Frees the memory of an array at once, because the garbage collector may let some hundred megabytes of such arrays
 * pile up. An array that is only a part of its buffer is left to the collector.
 */
function freeBytes({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}
