import {
  abortThreadsWorld,
  createGroup,
  createLoopbackTransports,
  createThreadsWorld,
  hostedTransport,
  joinThreadsWorld,
  type ThreadsWorld,
  type WatchedTransport,
} from '@shardwise/collectives';
import { MemoryStore, tcpTransport } from '@shardwise/collectives/node';
import { ConfigError, type ProcessGroup, type TypedBytes } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';

const HOSTS = [0, 0, 1, 1];

interface Cluster {
  readonly worlds: readonly ThreadsWorld[];
  readonly transports: readonly WatchedTransport[];
  readonly groups: readonly ProcessGroup[];
}

/** Connects two hosts with two ranks each, all on this thread. */
function clusterOver(remotes: readonly WatchedTransport[]): Cluster {
  const worlds = [0, 1].map(() => createThreadsWorld({ size: 2, arenaBytes: 1 << 16 }));
  const transports = remotes.map((remote, rank) => {
    const local = joinThreadsWorld(worlds[HOSTS[rank]!]!, rank % 2);
    return hostedTransport({ local, remote, hosts: HOSTS });
  });
  const groups = transports.map((transport) => createGroup(transport, { hosts: HOSTS }));
  return { worlds, transports, groups };
}

/** Connects ranks of one host, all on this thread. */
function ranksOfOneHost(size: number): readonly WatchedTransport[] {
  const world = createThreadsWorld({ size, arenaBytes: 1 << 16 });
  return createLoopbackTransports(size).map((remote, rank) =>
    hostedTransport({
      local: joinThreadsWorld(world, rank),
      remote,
      hosts: Array.from({ length: size }, () => 0),
    }),
  );
}

/** Waits for the calls. Returns the error that each one rejects with, as text. */
function failuresOf(calls: readonly Promise<unknown>[]): Promise<readonly string[]> {
  return Promise.all(
    calls.map((call) =>
      call.then(
        () => 'fulfilled',
        (error: unknown) => String(error),
      ),
    ),
  );
}

function typed(values: readonly number[]): TypedBytes {
  return { bytes: new Uint8Array(Float32Array.from(values).buffer), dtype: 'f32' };
}

describe('a hosted transport', () => {
  it('sends ranks of its host nothing over the remote transport', async () => {
    const remotes = createLoopbackTransports(4);
    const { groups } = clusterOver(remotes);
    await Promise.all(groups.map((group) => group.allReduce(typed([1, 2, 3, 4]), 'sum')));
    for (const [rank, { traffic }] of remotes.entries()) {
      expect(traffic.messages).toBeGreaterThan(0);
      const toNeighbours = traffic.bytesTo.filter((_, to) => HOSTS[to] === HOSTS[rank]);
      expect(toNeighbours).toEqual([0, 0]);
    }
  });

  it('needs no remote connections within a host', async () => {
    const store = new MemoryStore();
    const remotes = await Promise.all(
      HOSTS.map((host, rank) =>
        tcpTransport({
          store,
          rank,
          size: 4,
          secret: 'open sesame',
          peers: HOSTS.flatMap((other, peer) => (other === host ? [] : [peer])),
        }),
      ),
    );
    await expect(remotes[0]!.send(1, 0, new Uint8Array(1))).rejects.toThrow(
      /rank 0 is connected with 2, 3/,
    );
    const { groups } = clusterOver(remotes);
    const buffers = groups.map((_, rank) => typed([rank, 1]));
    await Promise.all(groups.map((group, rank) => group.allReduce(buffers[rank]!, 'sum')));
    for (const { bytes } of buffers) expect([...new Float32Array(bytes.buffer)]).toEqual([6, 4]);
    for (const group of groups) group.close();
  });

  it('is that of the remote ranks where a rank is alone on its host', () => {
    const [remote] = createLoopbackTransports(2);
    expect(hostedTransport({ local: undefined, remote: remote!, hosts: [0, 1] })).toBe(remote);
  });

  it.each([
    { name: 'hosts of another number of ranks', hosts: [0, 1] },
    { name: 'a local world of another size', hosts: [0, 0, 0, 1] },
    { name: 'a rank with another place on its host', hosts: [1, 0, 1, 0] },
  ])('refuses $name', ({ hosts }) => {
    const world = createThreadsWorld({ size: 2, arenaBytes: 1 << 16 });
    const local = joinThreadsWorld(world, 1);
    const [remote] = createLoopbackTransports(4);
    expect(() => hostedTransport({ local, remote: remote!, hosts })).toThrow(ConfigError);
  });

  it('keeps messages that nobody takes from keeping out those that are awaited', async () => {
    const { groups } = clusterOver(createLoopbackTransports(4));
    const [first, second] = groups;
    const count = 200;
    const early = Array.from({ length: count }, (_, i) => first!.send(typed([i]), 1, { tag: 7 }));
    const [awaited, received] = [typed([42]), typed([0])];
    await Promise.all([first!.send(awaited, 1), second!.recv(received, 0)]);
    expect(received).toEqual(awaited);
    const inOrder: number[] = [];
    for (let i = 0; i < count; i++) {
      const buffer = typed([-1]);
      await second!.recv(buffer, 0, { tag: 7 });
      inOrder.push(new Float32Array(buffer.bytes.buffer)[0]!);
    }
    await Promise.all(early);
    expect(inOrder).toEqual(Array.from({ length: count }, (_, i) => i));
  });

  it('fails only the messages of a rank that has left', async () => {
    const [first, second, third] = ranksOfOneHost(3);
    const byte = (value: number): Uint8Array => Uint8Array.of(value);
    const unsent = second!.send(0, 2, byte(1));
    const unreceived = second!.recv(0, 3, byte(0));
    first!.close();
    expect(await failuresOf([unsent, unreceived])).toEqual([
      expect.stringMatching(/rank 0 .*it closed the group before send/),
      expect.stringMatching(/rank 0 .*it closed the group before recv/),
    ]);
    const later = Array.from({ length: 40 }, () => second!.send(0, 5, byte(1)));
    await failuresOf(later);
    const received = byte(0);
    await Promise.all([third!.recv(1, 4, received), second!.send(2, 4, byte(9))]);
    expect([...received]).toEqual([9]);
  });

  it('fails messages in the middle of which a rank has left', async () => {
    const [first, second] = ranksOfOneHost(2);
    const bytes = (): Uint8Array => new Uint8Array(1 << 20);
    const unsent = failuresOf([first!.send(1, 0, bytes()), first!.recv(1, 1, bytes())]);
    const received = failuresOf([second!.recv(0, 0, bytes()), second!.send(0, 1, bytes())]);
    first!.close();
    await unsent;
    expect(await received).toEqual([
      expect.stringMatching(/rank 0 .*it closed the group before recv/),
      expect.stringMatching(/rank 0 .*it closed the group before send/),
    ]);
  });

  it('ends on all hosts when a rank closes it with a reason, naming that rank', async () => {
    const { groups } = clusterOver(createLoopbackTransports(4));
    const pending = failuresOf(groups.slice(0, 3).map((group) => group.barrier()));
    groups[3]!.close(new Error('the disk is full'));
    for (const text of await pending) expect(text).toMatch(/rank 3 .*the disk is full/);
    const later = await failuresOf(groups.map((group) => group.barrier()));
    for (const text of later) expect(text).toMatch(/rank 3 .*the disk is full/);
  });

  it('ends on all hosts when the launcher of one ends a rank, naming it by its rank', async () => {
    const { groups, worlds } = clusterOver(createLoopbackTransports(4));
    const pending = failuresOf(groups.slice(0, 3).map((group) => group.barrier()));
    abortThreadsWorld(worlds[1]!, { rank: 1, reason: new Error('its thread exited') });
    for (const text of await pending) expect(text).toMatch(/rank 3 .*its thread exited/);
  });

  it('ends within its host when the remote transport fails, naming the lost rank', async () => {
    const remotes = createLoopbackTransports(4);
    const { groups, transports } = clusterOver(remotes);
    // Rank 1 waits only for a message of rank 0. Rank 0 learns that rank 2 is lost.
    const pending = failuresOf([transports[1]!.recv(0, 5, new Uint8Array(1))]);
    remotes[2]!.close(new Error('the cable was cut'));
    expect(await pending).toEqual([expect.stringMatching(/rank 2 .*the cable was cut/)]);
    const later = await failuresOf(groups.map((group) => group.barrier()));
    for (const text of later) expect(text).toMatch(/rank 2 .*the cable was cut/);
  });
});
