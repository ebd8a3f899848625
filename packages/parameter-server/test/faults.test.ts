import { cpu } from '@shardwise/backend-cpu';
import { setRank } from '@shardwise/core';
import { beforeEach, describe, expect, it } from 'vitest';
import type { SnapshotStore } from '@shardwise/parameter-server';
import { oneElementWorker, ServerCluster } from './server-cluster.ts';

beforeEach(async () => setRank({ device: await cpu() }));

const asynchronous = { kind: 'bounded', staleness: null } as const;
const synchronous = { kind: 'synchronous', backupWorkers: 0 } as const;

/** A snapshot store that keeps the last snapshot in memory. */
function memorySnapshots(): SnapshotStore & { count: number } {
  let last: Awaited<ReturnType<SnapshotStore['read']>>;
  return {
    count: 0,
    async write(head, arrays) {
      last = { head, arrays: arrays.map((bytes) => bytes.slice()) };
      this.count++;
    },
    read: async () => last,
  };
}

describe('a server with a copy', () => {
  const started = async (): Promise<ServerCluster> => {
    const cluster = new ServerCluster(2, true);
    await cluster.start(0);
    await cluster.start(1);
    return cluster;
  };

  it('that is killed loses nothing, and neither does the other one after it', async () => {
    const cluster = await started();
    const { begin, push } = oneElementWorker(cluster.servers, 0, 0, {
      workers: 1,
      consistency: asynchronous,
    });
    await begin();
    for (let step = 1; step <= 3; step++) expect(await push(1)).toBe(-step);
    cluster.kill(0);
    expect(await push(1)).toBe(-4);
    await cluster.start(0, true);
    await new Promise((resolve) => setTimeout(resolve, 250));
    // The next change gives the restarted server its copy.
    expect(await push(1)).toBe(-5);
    cluster.kill(1);
    expect(await push(1)).toBe(-6);
  });

  it('that is killed in a synchronous step completes it on the copy', async () => {
    const cluster = await started();
    const job = { workers: 2, consistency: synchronous };
    const workers = [0, 1].map((worker) => oneElementWorker(cluster.servers, 0, worker, job));
    for (const { begin } of workers) await begin();
    expect(await Promise.all(workers.map(({ push }, index) => push(1 + index)))).toEqual([
      -1.5, -1.5,
    ]);
    const first = workers[0]?.push(1);
    await new Promise((resolve) => setTimeout(resolve, 50));
    cluster.kill(0);
    expect(await workers[1]?.push(3)).toBe(-3.5);
    expect(await first).toBe(-3.5);
  });

  it('that is lost together with its copy is an error', async () => {
    const cluster = await started();
    const job = { workers: 1, consistency: asynchronous };
    const { begin, push } = oneElementWorker(cluster.servers, 0, 0, job, 300);
    await begin();
    await push(1);
    for (const server of [0, 1]) cluster.kill(server);
    for (const server of [0, 1]) await cluster.start(server, true);
    await expect(push(1)).rejects.toThrow(/neither a replica nor a snapshot/);
  });
});

describe('a server without a copy', () => {
  it('goes on from its snapshot, with the optimizer as it was', async () => {
    const snapshots = memorySnapshots();
    const cluster = new ServerCluster(1, false, snapshots);
    await cluster.start(0);
    const { begin, push } = oneElementWorker(cluster.servers, 0, 0, {
      workers: 1,
      consistency: asynchronous,
    });
    await begin();
    for (let step = 1; step <= 3; step++) await push(1);
    expect(snapshots.count).toBeGreaterThan(0);
    cluster.kill(0);
    await cluster.start(0, true);
    const value = await push(1);
    // The value contains everything in the last snapshot, and this push.
    expect([-2, -3, -4]).toContain(value);
    expect(await push(1)).toBe(value - 1);
  });

  it('goes on from a snapshot of before a worker was started again', async () => {
    const kept = memorySnapshots();
    let before: Awaited<ReturnType<SnapshotStore['read']>>;
    const snapshots: SnapshotStore = {
      write: (head, arrays) => kept.write(head, arrays),
      read: async () => before,
    };
    const cluster = new ServerCluster(1, false, snapshots);
    await cluster.start(0);
    const job = { workers: 1, consistency: asynchronous };
    const first = oneElementWorker(cluster.servers, 0, 0, job);
    await first.begin();
    await first.push(1);
    before = await kept.read();
    const again = oneElementWorker(cluster.servers, 0, 0, job);
    await again.begin();
    expect(await again.push(1)).toBe(-2);
    cluster.kill(0);
    await cluster.start(0, true);
    expect([-1, -2]).toContain(await again.push(1));
  });

  it('goes on in another run, with other workers that wait in another way', async () => {
    const snapshots = memorySnapshots();
    const cluster = new ServerCluster(1, false, snapshots);
    await cluster.start(0);
    const first = oneElementWorker(cluster.servers, 0, 0, {
      workers: 1,
      consistency: asynchronous,
    });
    await first.begin();
    for (let step = 1; step <= 3; step++) expect(await first.push(1)).toBe(-step);
    cluster.kill(0);
    const next = new ServerCluster(1, false, snapshots);
    await next.start(0, 'resumes');
    const job = { workers: 2, consistency: synchronous };
    const workers = [0, 1].map((worker) => oneElementWorker(next.servers, 0, worker, job));
    for (const { begin } of workers) await begin();
    const values = await Promise.all(workers.map(({ push }, index) => push(1 + 2 * index)));
    const [value = Number.NaN] = values;
    // The value contains everything in the last snapshot, and the mean of both pushes.
    expect([-4, -5]).toContain(value);
    expect(values).toEqual([value, value]);
    // From now on, a worker with another model is refused.
    const other = oneElementWorker(next.servers, 0, 1, { workers: 3, consistency: synchronous });
    await expect(other.begin()).rejects.toMatchObject({ fields: { refusal: 'other-model' } });
  });

  it('and without a snapshot is an error that says so', async () => {
    const cluster = new ServerCluster(1, false);
    await cluster.start(0);
    const { begin, push } = oneElementWorker(cluster.servers, 0, 0, {
      workers: 1,
      consistency: asynchronous,
    });
    await begin();
    await push(1);
    cluster.kill(0);
    await cluster.start(0, true);
    await expect(push(1)).rejects.toThrow(/neither a replica nor a snapshot/);
  });
});

describe('workers', () => {
  it('whose push was counted before they were taken for lost do not have it counted again', async () => {
    const cluster = new ServerCluster(1, false);
    await cluster.start(0);
    const job = { workers: 2, consistency: asynchronous };
    const { begin, push, link } = oneElementWorker(cluster.servers, 0, 0, job);
    await begin();
    await push(1);
    await link.leave();
    const other = oneElementWorker(cluster.servers, 0, 1, job);
    await other.begin();
    expect(await other.push(1)).toBe(-2);
    expect(await push(1)).toBe(-3);
  });

  it('come and go: the others go on, and one that comes again goes on where the servers are', async () => {
    const cluster = new ServerCluster(1, false);
    await cluster.start(0);
    const job = { workers: 2, consistency: { kind: 'bounded', staleness: 1 } as const };
    const first = oneElementWorker(cluster.servers, 0, 0, job);
    const second = oneElementWorker(cluster.servers, 0, 1, job);
    await first.begin();
    await second.begin();
    await Promise.all([first.push(1), second.push(1)]);
    await second.link.leave();
    for (let step = 0; step < 4; step++) await first.push(1);
    const again = oneElementWorker(cluster.servers, 0, 1, job);
    await again.begin();
    expect(await again.push(1)).toBe(-7);
    await expect(second.link.pull([0], () => undefined)).rejects.toMatchObject({
      fields: { refusal: 'stale' },
    });
  });
});
