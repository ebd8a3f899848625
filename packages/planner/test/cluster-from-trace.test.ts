import { describe, expect, test } from 'vitest';
import { clusterFromTrace } from '@shardwise/planner';

const host = { name: 'a host', memoryBytes: 64e9 };
const device = { flops: 80e9, bytesPerSecond: 12e9, launchSeconds: 4e-6 };
const link = { latencySeconds: 2e-5, bytesPerSecond: 3e9 };

/** A kernel that takes what a device of these constants takes. */
function kernel(tid: number, flops: number, bytes: number, calls: number): object {
  const work = flops > 0 ? flops / device.flops : bytes / device.bytesPerSecond;
  const dur = 1e6 * (work + calls * device.launchSeconds);
  return { cat: 'kernel', name: 'op', pid: 1, tid, ts: 0, dur, args: { flops, bytes, calls } };
}

/** A collective that takes what a ring over such a link takes, and what the rank waits for the others. */
function collective(name: string, tid: number, ts: number, bytes: number, wait = 0): object {
  const ranks = 4;
  const rounds = (name === 'allReduce' ? 2 : 1) * (ranks - 1);
  const ring = rounds * (link.latencySeconds + bytes / ranks / link.bytesPerSecond);
  const dur = 1e6 * (ring + wait);
  return { cat: 'collective', name, pid: 0, tid, ts, dur, args: { bytes, axis: 'dp', ranks } };
}

const kernels = [0, 1, 2, 3].flatMap((rank) => [
  kernel(rank, 4e9, 3e6, 8),
  kernel(rank, 1e9, 8e6, 24),
  kernel(rank, 2e8, 1e6, 4),
  kernel(rank, 0, 4e8, 40),
  kernel(rank, 0, 1e8, 4),
]);
const steps = [0, 1].map((step) => ({
  cat: 'step',
  name: `step ${step}`,
  pid: 0,
  tid: 0,
  ts: 1e6 * step,
  dur: 1e6,
}));
const messages = [1e3, 1e6, 8e6, 3e7].flatMap((bytes, index) =>
  [0, 1, 2, 3].flatMap((rank) => [
    // Another rank comes late to each of them.
    collective('allReduce', rank, 1e6 + index, bytes, rank === index ? 0 : 0.3),
    collective('allGather', rank, 1e6 + 10 + index, bytes, rank === index ? 0 : 0.1),
    // Of the first step, in which ranks compile.
    collective('allReduce', rank, index, bytes, 5),
  ]),
);

describe('a cluster from a trace', () => {
  test('has the constants from which the trace was made', () => {
    const cluster = clusterFromTrace({ traceEvents: [...steps, ...kernels, ...messages] }, host);
    expect(cluster).toMatchObject({ hosts: 1, devicesPerHost: 4 });
    expect(cluster.device.flops.f32 / device.flops).toBeCloseTo(1, 3);
    expect(cluster.device.memoryBytesPerSecond / device.bytesPerSecond).toBeCloseTo(1, 3);
    expect(cluster.device.launchSeconds / device.launchSeconds).toBeCloseTo(1, 2);
    expect(cluster.device.memoryBytes).toBe(host.memoryBytes / 4);
    expect(cluster.links.inside.bytesPerSecond / link.bytesPerSecond).toBeCloseTo(1, 3);
    expect(cluster.links.inside.latencySeconds / link.latencySeconds).toBeCloseTo(1, 3);
    expect(cluster.links.toHost).toBeUndefined();
  });

  test('has the link to the host if something was moved there', () => {
    const transfer = (bytes: number): object => ({
      cat: 'transfer',
      name: 'pageOut',
      pid: 0,
      tid: 0,
      dur: 1e6 * (1e-4 + bytes / 2e9),
      args: { bytes },
    });
    const { links } = clusterFromTrace(
      { traceEvents: [...kernels, transfer(1e6), transfer(1e7), transfer(1e8)] },
      host,
    );
    expect((links.toHost?.bytesPerSecond ?? 0) / 2e9).toBeCloseTo(1, 3);
  });

  test('has a least bandwidth where messages of one size say nothing of it', () => {
    const bytes = 66_304;
    const args = { bytes, axis: 'dp', ranks: 2 };
    // By rounding alone, a little of these times seems to be that of the bytes.
    const alike = [1000, 8000].map((dur, step) => ({
      cat: 'collective',
      name: 'allReduce',
      pid: 0,
      tid: 0,
      ts: 1e6 * step,
      dur,
      args,
    }));
    const { links } = clusterFromTrace({ traceEvents: [...kernels, ...alike] }, host);
    expect(links.inside.bytesPerSecond).toBeCloseTo((2 * bytes) / 9e-3, 0);
  });

  test('ignores what other tools write into traces, and values out of bounds', () => {
    const strange = [
      null,
      7,
      { cat: 'kernel', name: 'sgemm', dur: 5, pid: 1, tid: 0 },
      { cat: 'kernel', pid: 1, tid: 0, dur: 1e300, args: { flops: 1, bytes: 1, calls: 1 } },
      { cat: 'kernel', pid: 1, tid: 0, dur: -1, args: { flops: 1, bytes: 1, calls: 1 } },
      { cat: 'transfer', pid: 0, tid: 0, dur: 1, args: { bytes: 'a lot' } },
    ];
    expect(clusterFromTrace({ traceEvents: [...strange, ...kernels] }, host)).toEqual(
      clusterFromTrace({ traceEvents: kernels }, host),
    );
  });

  test.each([
    ['no object', 7],
    ['no events', { traceEvents: 'all of them' }],
    ['nothing that was profiled', { traceEvents: messages }],
    ['too many events', { traceEvents: Array.from({ length: 1_000_001 }, () => 0) }],
  ])('is refused for %s', (_, trace) => {
    expect(() => clusterFromTrace(trace, host)).toThrow('the constants of a cluster from a trace');
  });
});
