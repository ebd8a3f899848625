import type { Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import type { ByteSplits } from './pairwise-all-to-all.ts';
import { partsOf } from './parts-of.ts';

/** Lengths travel as f64, exact up to 2^53 bytes. */
const LENGTH_BYTES = 8;

/**
 * What a host sends to a rank of another host is collected first by one of its ranks, the one whose place on its host
 * is that of the receiver. Two hosts therefore exchange as many bytes, but one message for each receiver instead of one
 * for each pair of ranks.
 * Specification: allToAllSpecification.
 *
 *   rank 0  a0 a1 a2 a3        a0 b0 a2 b2        a0 b0 c0 d0
 *   rank 1  b0 b1 b2 b3        a1 b1 a3 b3        a1 b1 c1 d1
 *   ─────── host ───────  =>                =>
 *   rank 2  c0 c1 c2 c3        c0 d0 c2 d2        a2 b2 c2 d2
 *   rank 3  d0 d1 d2 d3        c1 d1 c3 d3        a3 b3 c3 d3
 */
export async function hierarchicalAllToAll(
  communicator: Communicator,
  input: Uint8Array,
  output: Uint8Array,
  splits: ByteSplits,
): Promise<void> {
  const { rank, hosts } = communicator;
  const outgoing = partsOf(input, splits.input);
  const incoming = partsOf(output, splits.output);
  const own = hosts.find((ranks) => ranks.includes(rank)) ?? [rank];
  const others = hosts.filter((ranks) => ranks !== own);
  const place = own.indexOf(rank);
  /** The ranks of other hosts for which a rank of this host collects. */
  const receiversOf = (collector: number): readonly number[] =>
    others.flatMap((ranks) => ranks.filter((_, at) => own[at % own.length] === collector));
  const receivers = receiversOf(rank);

  const give = async (peer: number): Promise<void> => {
    const theirs = receiversOf(peer);
    const lengths = Float64Array.from(theirs, (to) => splits.input[to] ?? 0);
    const parts = joined(theirs.map((to) => outgoing[to]!));
    await Promise.all([
      communicator.send(peer, outgoing[peer]!),
      communicator.send(peer, bytesOf(lengths)),
      ...(parts.byteLength === 0 ? [] : [communicator.send(peer, parts)]),
    ]);
  };
  /** Receives what a rank of this host sends to each of the receivers. */
  const take = async (peer: number): Promise<readonly Uint8Array[]> => {
    await communicator.recv(peer, incoming[peer]!);
    const lengths = new Float64Array(new ArrayBuffer(receivers.length * LENGTH_BYTES));
    await communicator.recv(peer, bytesOf(lengths));
    const parts = new Uint8Array(sumOf(lengths));
    if (parts.byteLength > 0) await communicator.recv(peer, parts);
    return partsOf(parts, lengths);
  };
  const passOn = async (): Promise<void> => {
    const collected = await Promise.all(
      own.map(async (peer) => (peer === rank ? receivers.map((to) => outgoing[to]!) : take(peer))),
    );
    await Promise.all(
      receivers.map(async (to, index) => {
        const message = joined(collected.map((parts) => parts[index]!));
        if (message.byteLength > 0) await communicator.send(to, message);
      }),
    );
  };
  const receive = async (ranks: readonly number[]): Promise<void> => {
    const lengths = ranks.map((from) => splits.output[from] ?? 0);
    const message = new Uint8Array(sumOf(lengths));
    if (message.byteLength === 0) return;
    await communicator.recv(ranks[place % ranks.length]!, message);
    for (const [index, part] of partsOf(message, lengths).entries()) {
      incoming[ranks[index]!]!.set(part);
    }
  };

  incoming[rank]!.set(outgoing[rank]!);
  const peers = own.filter((peer) => peer !== rank);
  await Promise.all([...peers.map(give), passOn(), ...others.map(receive)]);
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(sumOf(parts.map(({ byteLength }) => byteLength)));
  for (const [index, part] of partsOf(
    whole,
    parts.map(({ byteLength }) => byteLength),
  ).entries()) {
    part.set(parts[index]!);
  }
  return whole;
}

function bytesOf({ buffer }: Float64Array<ArrayBuffer>): Uint8Array {
  return new Uint8Array(buffer);
}

function sumOf(lengths: ArrayLike<number>): number {
  return Array.from(lengths).reduce((sum, length) => sum + length, 0);
}

/** The cost if all parts have the same length. `bytes` is the length of the whole input. */
export const hierarchicalAllToAllCost: Cost = {
  rounds: () => 2,
  bytesPerRank: (size, bytes, hosts) => {
    const [own, part] = [size / hosts, bytes / size];
    const inside = (own - 1) * (part + (hosts - 1) * (part + LENGTH_BYTES));
    return inside + (hosts - 1) * own * part;
  },
  bytesPerHost: (size, bytes, hosts) => ((size / hosts) * (hosts - 1) * bytes) / hosts,
};
