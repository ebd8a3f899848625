import { createServer, type Server, type ServerResponse } from 'node:http';
import { createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import { CheckpointError, ConfigError, type HostArrays, type ProcessGroup } from '@shardwise/core';
import { httpFolder } from '@shardwise/core/extend';
import { s3Folder } from '@shardwise/core/node';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type S3Server, startS3 } from '../../../test/support/s3-server.ts';
import { listCheckpoints } from '../src/checkpoint/places/list-checkpoints.ts';
import { readableAt, writableAt } from '../src/checkpoint/places/checkpoint-place.ts';
import { CheckpointSaver } from '../src/checkpoint/save/checkpoint-saver.ts';
import { saveCheckpoint } from '../src/checkpoint/save/save-checkpoint.ts';
import { loadCheckpoint, verifyCheckpoint } from '../src/checkpoint/load/load-checkpoint.ts';

const place = 's3://training/runs/1';
let server: S3Server;
beforeEach(async () => {
  server = await startS3();
  for (const [name, value] of Object.entries(server.environment)) vi.stubEnv(name, value);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await server[Symbol.asyncDispose]();
});

const contents = (step: number): { step: number; model: HostArrays } => {
  const bytes = new Uint8Array(Float32Array.of(step, 2, 3).buffer);
  return { step, model: { w: { dtype: 'f32', shape: [3], bytes } } };
};
const latestStep = async (): Promise<number> => (await loadCheckpoint(place)).step;
const keys = async (): Promise<readonly string[]> =>
  (await s3Folder(place).list('')).map(({ name }) => name);

describe('checkpoints in a bucket', () => {
  it('are saved and found as those of a folder', async () => {
    const folder = await saveCheckpoint(place, contents(1));
    expect(folder).toBe('s3://training/runs/1/step-000001');
    await saveCheckpoint(s3Folder(place), contents(2));
    expect(await latestStep()).toBe(2);
    expect((await loadCheckpoint(folder)).step).toBe(1);
    await verifyCheckpoint(folder, { contents: true });
    const { files, directory } = readableAt(place);
    expect(await listCheckpoints(files, directory)).toEqual([
      's3://training/runs/1/step-000002',
      's3://training/runs/1/step-000001',
    ]);
    // The name of the latest one is written in one piece. Nothing else is left.
    expect((await keys()).filter((name) => !name.startsWith('step-'))).toEqual(['latest']);
  });

  it('stay whole, and the latest is one of them, whichever request of a save is the first that fails', async () => {
    await saveCheckpoint(place, contents(1));
    const before = server.requests.length;
    await saveCheckpoint(place, contents(2));
    const requests = server.requests.length - before;
    for (let crashAt = 0; crashAt < requests; crashAt += 1) {
      let request = 0;
      server.fault = () => (request++ >= crashAt ? 403 : undefined);
      const saved = saveCheckpoint(place, contents(3));
      await expect(saved, `request ${crashAt}`).rejects.toThrow(/status 403/);
      server.fault = () => undefined;
      expect([2, 3]).toContain(await latestStep());
      await verifyCheckpoint(place, { contents: true });
    }
    await saveCheckpoint(place, contents(4));
    expect(await latestStep()).toBe(4);
  });

  it('are removed but for those to keep, and what an interrupted save has left after a day', async () => {
    const folder = s3Folder(place);
    await folder.write('step-000001/model-00000-of-00001.safetensors', [new Uint8Array(8)]);
    for (const step of [2, 3, 4]) await saveCheckpoint(place, contents(step), { keep: 2 });
    const folders = async (): Promise<Set<string | undefined>> =>
      new Set((await keys()).map((name) => name.split('/')[0]));
    expect(await folders()).toEqual(
      new Set(['latest', 'step-000001', 'step-000003', 'step-000004']),
    );
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 25 * 3600 * 1000 });
    try {
      await saveCheckpoint(place, contents(5), { keep: 2 });
    } finally {
      vi.useRealTimers();
    }
    expect(await folders()).toEqual(new Set(['latest', 'step-000004', 'step-000005']));
  });

  it('are of one run: another one that takes the name meanwhile is an error on all ranks', async () => {
    const world = createThreadsWorld({ size: 2 });
    const groups = [0, 1].map((rank) => joinThreadsWorld(world, rank));
    // Between the list of what is there and the claim of a name, another run claims it.
    server.fault = ({ method, path }) => {
      if (method !== 'PUT' || !path.endsWith('/writer')) return undefined;
      server.fault = () => undefined;
      return 412;
    };
    const save = async (group: ProcessGroup): Promise<unknown> => {
      const saver = new CheckpointSaver({ ...writableAt(place), group });
      return saver.save(contents(1)).catch((error: unknown) => error);
    };
    for (const error of await Promise.all(groups.map(save))) {
      expect(error).toBeInstanceOf(CheckpointError);
      expect(String(error)).toMatch(/another run has saved step-000001 there meanwhile/);
    }
    for (const group of groups) group.close();
  });
});

describe('checkpoints of a web server', () => {
  let web: Server | undefined;
  afterEach(() => void web?.close());

  it('are loaded, and nothing is saved there', async () => {
    await saveCheckpoint(place, contents(7));
    const answer = async (
      url: string,
      range: string | undefined,
      response: ServerResponse,
    ): Promise<void> => {
      const file = await s3Folder(place).open(url.slice(1));
      if (file === undefined) return void response.writeHead(404).end();
      const [, from = '0', to = ''] = /^bytes=(\d+)-(\d+)$/.exec(range ?? '') ?? [];
      const end = to === '' ? file.byteLength : Math.min(Number(to) + 1, file.byteLength);
      const bytes = new Uint8Array(end - Number(from));
      await file.read(bytes, Number(from));
      const head = { etag: '"1"', 'content-range': `bytes ${from}-${end - 1}/${file.byteLength}` };
      response.writeHead(range === undefined ? 200 : 206, head).end(bytes);
    };
    web = createServer(
      (request, response) => void answer(request.url ?? '', request.headers.range, response),
    );
    await new Promise<void>((resolve) => web?.listen(0, '127.0.0.1', resolve));
    const address = web.address();
    const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
    for (const at of [url, `${url}/`, httpFolder(url), `${url}/step-000007`]) {
      const { step, model } = await loadCheckpoint(at);
      expect([step, (await model.read('w')).bytes.byteLength]).toEqual([7, 12]);
    }
    const { files, directory } = readableAt(url);
    expect(await listCheckpoints(files, directory)).toEqual([`${url}/step-000007`]);
    await expect(loadCheckpoint(`${url}/other`)).rejects.toThrow(/no state.json/);
    await expect(saveCheckpoint(url, contents(8))).rejects.toThrow(ConfigError);
    await expect(loadCheckpoint('gopher://x/y')).rejects.toThrow(/a scheme that is not known/);
  });
});
