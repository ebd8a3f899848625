import type { Communicator } from './communicator.ts';
import { fragmentsOf } from './fragments.ts';

/** A rank's place in a tree over which values go from root to all. */
export interface TreePlace {
  /** Undefined on root. */
  readonly parent: number | undefined;
  readonly children: readonly number[];
}

/** The neighbours of a place in a binomial tree over `size` places. Root has place 0. */
export function binomialPlace(place: number, size: number): TreePlace {
  const parentStep = 2 ** Math.floor(Math.log2(Math.max(place, 1)));
  const children: number[] = [];
  for (let step = place === 0 ? 1 : 2 * parentStep; place + step < size; step *= 2) {
    children.push(place + step);
  }
  return { parent: place === 0 ? undefined : place - parentStep, children };
}

/** Receives from the parent and sends to the children. Each fragment is sent on as soon as it comes. */
export async function passOn(
  communicator: Communicator,
  buffer: Uint8Array,
  { parent, children }: TreePlace,
  fragmentBytes?: number,
): Promise<void> {
  const fragments = fragmentsOf(buffer, fragmentBytes);
  const arriving = fragments.map((fragment) =>
    parent === undefined ? undefined : communicator.recv(parent, fragment),
  );
  const sent: Promise<void>[] = [];
  for (const [index, fragment] of fragments.entries()) {
    await arriving[index];
    sent.push(...children.map((child) => communicator.send(child, fragment)));
  }
  await Promise.all(sent);
}
