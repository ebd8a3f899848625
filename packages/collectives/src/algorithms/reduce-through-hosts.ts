import type { Communicator } from './communicator.ts';
import { receiveAhead } from './receive-ahead.ts';
import { partialBytes, type Reduction } from './partial-sums.ts';

/** A fragment of the values, and the ranks that add it. */
export interface HostFragment {
  /** This rank's values. */
  readonly bytes: Uint8Array;
  /** For each host, the rank that adds the values of that host. */
  readonly owners: readonly number[];
}

/**
 * What to do with a fragment when all ranks' values have been added. The functions are only called on its owner on the
 * last host.
 */
export interface ReducedFragments<Fragment extends HostFragment> {
  /** The memory for the result. `done` is called when the result is there. */
  readonly destination: (fragment: Fragment) => Uint8Array;
  readonly done: (fragment: Fragment, result: Uint8Array) => void;
}

/** How many sums may wait to be sent on. */
const MAX_WAITING = 4;

/**
 * Adds fragments in the order of the ranks: on each host, the fragment's owner adds the values of its host's
 * ranks to the sum that comes from the host before, and sends the new sum to the next host. The ranks of each
 * host must follow each other. While one fragment is on its way to the next host, the owner adds the next one.
 *
 *   host 0  a ─┐               host 1  c ─┐
 *           b ─┴─► (a+b) ──────────────► (a+b)+c ─┐
 *                                      d ────────┴─► ((a+b)+c)+d
 */
export async function reduceThroughHosts<Fragment extends HostFragment>(
  communicator: Communicator,
  fragments: readonly Fragment[],
  { dtype, op, reducer }: Reduction,
  results: ReducedFragments<Fragment>,
): Promise<void> {
  const { hosts, rank, size } = communicator;
  const host = hosts.findIndex((ranks) => ranks.includes(rank));
  const residents = hosts[host] ?? [];
  const neighbours = residents.filter((resident) => resident !== rank);
  const mine = fragments.filter(({ owners }) => owners[host] === rank);
  const turns = mine.map(({ bytes: { byteLength }, owners }) => [
    ...owners
      .slice(host - 1, host)
      .map((from) => ({ from, byteLength: partialBytes(dtype, byteLength) })),
    ...neighbours.map((from) => ({ from, byteLength })),
  ]);
  const arrivals = receiveAhead(communicator, turns, reducer);
  const first = arrivals.next();
  const sent = fragments.flatMap(({ bytes, owners }) => {
    const owner = owners[host] ?? rank;
    return owner === rank ? [] : [communicator.send(owner, bytes)];
  });
  const passed: Promise<void>[] = [];
  let turn = await first;
  for (const fragment of mine) {
    if (turn.done === true) break;
    const buffers = turn.value;
    const [partial, ...others] = host > 0 ? buffers : [undefined, ...buffers];
    const sources = residents.map((r) => others[neighbours.indexOf(r)] ?? fragment.bytes);
    const next = fragment.owners[host + 1];
    if (next === undefined) {
      const result = results.destination(fragment);
      reducer.fold({ partial, sources, dtype, op, total: size }, result);
      results.done(fragment, result);
    } else {
      await passed[passed.length - MAX_WAITING];
      const sum = reducer.borrow(partialBytes(dtype, fragment.bytes.byteLength));
      reducer.fold({ partial, sources, dtype, op, total: undefined }, sum);
      passed.push(communicator.send(next, sum).then(() => reducer.giveBack(sum)));
    }
    turn = await arrivals.next();
  }
  await Promise.all([...sent, ...passed]);
}
