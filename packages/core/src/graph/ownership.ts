import { rankState } from '../ambient.ts';
import type { Page } from '../paging/page.ts';
import type { HostValue, Node } from './node.ts';
import type { Storage } from './storage.ts';

/** Frees what a dropped node held, where nothing freed it before. */
const unreachable = new FinalizationRegistry<Storage>((storage) => storage.release());

/** Gives a node device memory of its own. */
export function adoptStorage(node: Node, storage: Storage): void {
  releaseValue(node);
  node.value = { kind: 'device', storage };
  unreachable.register(node, storage, node);
  if (!node.resident && !node.hasOwner) weigh(node, storage.buffer.byteLength);
}

/** From this size on, allocated memory that nothing is written to takes none. */
const weightBytes = 1024 * 1024;

/**
 * A node is a few small objects, so the garbage collector has no reason to look for those that were
 * dropped, while their memory on the device runs out. An array of that size, which is never touched and so
 * takes no memory, gives it one. Small results have one together.
 */
function weigh(node: Node, byteLength: number): void {
  rankState.unweighedBytes += byteLength;
  if (rankState.unweighedBytes < weightBytes) return;
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
 * Frees the memory of an array at once: the collector sees large arrays late, when those of some hundred
 * megabytes are waiting. A part of a buffer is left to it.
 */
function freeBytes({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}
