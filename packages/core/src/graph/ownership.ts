import type { Page } from '../paging/page.ts';
import type { Node } from './node.ts';
import type { Storage } from './storage.ts';

/** Frees what a dropped node held, where nothing freed it before. */
const unreachable = new FinalizationRegistry<Storage>((storage) => storage.release());

/** Gives a node device memory of its own. */
export function adoptStorage(node: Node, storage: Storage): void {
  node.value = { kind: 'device', storage };
  unreachable.register(node, storage, node);
}

/** Frees a node's device memory; later uses of the node say who freed it. */
export function freeNode(node: Node, by: string): void {
  releaseStorage(node);
  node.value = { kind: 'freed', by };
}

/** Moves a node's value to the host heap, where the garbage collector sees its size. */
export function moveToHost(node: Node, bytes: Uint8Array): void {
  releaseStorage(node);
  node.value = { kind: 'host', bytes };
}

/** Moves a leaf's contents out of the device, until a run needs them. */
export function moveToPage(node: Node, page: Page): void {
  releaseStorage(node);
  node.value = { kind: 'paged', page };
}

function releaseStorage(node: Node): void {
  if (node.value?.kind !== 'device') return;
  unreachable.unregister(node);
  node.value.storage.release();
}
