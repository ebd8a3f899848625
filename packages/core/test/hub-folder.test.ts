import {
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, ConfigError } from '@shardwise/core';
import { hubFolder } from '@shardwise/core/node';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { hubHash, type HubServer, startHub } from '../../../test/support/hub-server.ts';

const config = { bytes: Buffer.from('{"model_type": "llama"}'), isLarge: false };
const weights = {
  bytes: Buffer.from(Uint8Array.from({ length: 3_000_000 }, (_, i) => (i * 31 + (i >> 8)) % 251)),
  isLarge: true,
};

let hub: HubServer;
let home = '';
let cache = '';
beforeEach(async () => {
  const files = new Map([
    ['config.json', config],
    ['model.safetensors', weights],
    ['sub/notes.txt', config],
  ]);
  hub = await startHub('org/small', files);
  home = await mkdtemp(join(tmpdir(), 'shardwise-hub-'));
  cache = join(home, 'hub', 'models--org--small');
  vi.stubEnv('HF_ENDPOINT', hub.endpoint);
  vi.stubEnv('HF_HOME', home);
  for (const name of ['HF_TOKEN', 'HF_HUB_CACHE', 'HF_HUB_OFFLINE']) vi.stubEnv(name, undefined);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  await hub[Symbol.asyncDispose]();
  await rm(home, { recursive: true });
});

async function bytesOf(
  folder = hubFolder('org/small'),
  name = 'model.safetensors',
): Promise<Buffer> {
  const file = await folder.open(name);
  if (file === undefined) throw new Error(`no ${name}`);
  const bytes = new Uint8Array(file.byteLength);
  await file.read(bytes, 0);
  await file.close();
  return Buffer.from(bytes);
}

const errorOf = async (work: Promise<unknown>): Promise<Error> => {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof Error) return error;
  throw new TypeError('no error');
};

describe('a repository of the hub', () => {
  it('is read into the cache in the layout of Python, file by file', async () => {
    const folder = hubFolder('org/small');
    expect(await folder.readText('config.json')).toBe(config.bytes.toString());
    expect(await readdir(join(cache, 'blobs'))).toEqual([hubHash(config)]);
    expect(Buffer.compare(await bytesOf(folder), weights.bytes)).toBe(0);
    expect(await folder.readText('sub/notes.txt')).toBe(config.bytes.toString());
    expect(await folder.open('missing.json')).toBeUndefined();
    const snapshot = join(cache, 'snapshots', hub.commit);
    expect(await readlink(join(snapshot, 'config.json'))).toBe(`../../blobs/${hubHash(config)}`);
    expect(await readlink(join(snapshot, 'sub', 'notes.txt'))).toBe(
      `../../../blobs/${hubHash(config)}`,
    );
    expect(await readFile(join(cache, 'refs', 'main'), 'utf8')).toBe(hub.commit);
    expect((await readdir(join(cache, 'blobs'))).toSorted()).toEqual(
      [hubHash(config), hubHash(weights)].toSorted(),
    );
  });

  it('is asked only for what is not in the cache, and a new commit only for what is new', async () => {
    await bytesOf();
    const before = hub.requests.length;
    await bytesOf();
    expect(hub.requests.slice(before)).toEqual(['GET /api/models/org/small/revision/main']);
    hub.commit = 'c'.repeat(40);
    hub.files.set('config.json', { bytes: Buffer.from('{}'), isLarge: false });
    const again = hubFolder('org/small');
    expect(await again.readText('config.json')).toBe('{}');
    const start = hub.requests.length;
    expect(Buffer.compare(await bytesOf(again), weights.bytes)).toBe(0);
    expect(hub.requests.slice(start).filter((each) => each.includes('resolve'))).toEqual([]);
    // A commit never changes, so the hub is not asked for it.
    const pinned = hub.requests.length;
    const old = hubFolder('org/small', { revision: hub.commit });
    expect(await old.readText('config.json')).toBe('{}');
    expect(hub.requests.length).toBe(pinned);
  });

  it('goes on where a connection broke, and where an earlier process stopped', async () => {
    let isBroken = false;
    hub.fault = ({ url = '', headers }, response) => {
      if (isBroken || !url.includes('resolve') || headers.range !== undefined) return false;
      isBroken = true;
      response.writeHead(200, { 'content-length': weights.bytes.length, etag: '"x"' });
      response.write(weights.bytes.subarray(0, 1_000_000), () => {
        setTimeout(() => response.destroy(), 100);
      });
      return true;
    };
    expect(Buffer.compare(await bytesOf(), weights.bytes)).toBe(0);
    const [, start] = /bytes=(\d+)-2999999$/.exec(hub.requests.at(-1) ?? '') ?? [];
    expect(Number(start)).toBeGreaterThan(0);
    const blob = join(cache, 'blobs', hubHash(weights));
    await rm(join(cache, 'snapshots'), { recursive: true });
    await rm(blob);
    await writeFile(`${blob}.shardwise.incomplete`, weights.bytes.subarray(0, 2_000_000));
    expect(Buffer.compare(await bytesOf(), weights.bytes)).toBe(0);
    expect(hub.requests.at(-1)).toMatch(/bytes=2000000-2999999$/);
  });

  it('is refused where a file has another hash, and nothing of it stays', async () => {
    const changed = Buffer.from(weights.bytes);
    changed[1_500_000] = 252;
    hub.fault = ({ url = '', headers }, response) => {
      if (!url.includes('model.safetensors') || headers.range !== undefined) return false;
      response.writeHead(200, { 'content-length': changed.length }).end(changed);
      return true;
    };
    const error = await errorOf(bytesOf());
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error.message).toMatch(/the hash [0-9a-f]{64} instead of [0-9a-f]{64}/);
    expect(await readdir(join(cache, 'blobs'))).toEqual([]);
    await expect(readdir(join(cache, 'snapshots'))).rejects.toThrow(/ENOENT/);
  });

  it.each(['../../evil', '/etc/evil', 'a/../../evil', 'C:/evil', 'a\\..\\evil', ''])(
    'is refused where a file has the name %j',
    async (name) => {
      hub.files.set(name, config);
      await expect(bytesOf()).rejects.toThrow(/a file with the name/);
      await expect(readdir(join(home, 'hub'))).rejects.toThrow(/ENOENT/);
    },
  );

  it('is read once by several that ask at the same time, and fails for all of them at once', async () => {
    const all = await Promise.all(Array.from({ length: 4 }, () => bytesOf()));
    for (const bytes of all) expect(Buffer.compare(bytes, weights.bytes)).toBe(0);
    const reads = (): number =>
      hub.requests.filter((each) => /resolve\/.*model\.safetensors$/.test(each)).length;
    expect(reads()).toBe(1);
    await rm(join(home, 'hub'), { recursive: true });
    hub.fault = ({ url = '', headers }, response) => {
      if (!url.includes('resolve') || headers.range !== undefined) return false;
      response.writeHead(200, { 'content-length': 3_000_000 });
      response.end(Buffer.alloc(3_000_000));
      return true;
    };
    const errors = await Promise.all(Array.from({ length: 4 }, () => errorOf(bytesOf())));
    for (const error of errors) expect(error.message).toMatch(/the hash [0-9a-f]{64} instead of/);
    expect(reads()).toBe(2);
  });
});

describe('without a network', () => {
  it('a repository that Python has read is used', async () => {
    const commit = 'd'.repeat(40);
    const snapshot = join(cache, 'snapshots', commit);
    await mkdir(join(cache, 'blobs'), { recursive: true });
    await mkdir(join(cache, 'refs'), { recursive: true });
    await mkdir(snapshot, { recursive: true });
    await writeFile(join(cache, 'blobs', 'x'), '{"python": true}');
    await symlink('../../blobs/x', join(snapshot, 'config.json'));
    await writeFile(join(cache, 'refs', 'main'), commit);
    vi.stubEnv('HF_HUB_OFFLINE', '1');
    const folder = hubFolder('org/small');
    expect(await folder.readText('config.json')).toBe('{"python": true}');
    expect(await folder.open('model.safetensors')).toBeUndefined();
    expect(folder.place).toBe(`org/small (offline: only what ${cache} has)`);
    expect(hub.requests).toEqual([]);
    vi.stubEnv('HF_HUB_OFFLINE', '0');
    await hub[Symbol.asyncDispose]();
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => {});
    const unreachable = hubFolder('org/small', { retries: 0 });
    expect(await unreachable.readText('config.json')).toBe('{"python": true}');
    expect(warn.mock.calls.flat().join()).toMatch(
      /does not answer. org\/small is read from the cache/,
    );
  });

  it('one that is not in the cache is an error that says so', async () => {
    const offline = await errorOf(
      hubFolder('org/small', { offline: true }).readText('config.json'),
    );
    expect(offline).toBeInstanceOf(CheckpointError);
    expect(offline.message).toContain(
      `HF_HUB_OFFLINE is set, and the cache has nothing of it in ${cache}`,
    );
    await hub[Symbol.asyncDispose]();
    const unreachable = await errorOf(hubFolder('org/small', { retries: 0 }).open('config.json'));
    expect(unreachable.message).toContain(
      `the hub does not answer, and the cache has nothing of it`,
    );
  });
});

describe('what the hub is asked with', () => {
  it('is the token of the environment, or of the file of Python, which no other host gets', async () => {
    const other = await startHub('org/small', hub.files);
    try {
      hub.fault = ({ url = '' }, response) => {
        if (!url.includes('resolve')) return false;
        response.writeHead(302, { location: `${other.endpoint}${url}` }).end();
        return true;
      };
      await writeFile(join(home, 'token'), 'hf_of_the_file\n');
      await hubFolder('org/small').readText('config.json');
      expect(new Set(hub.tokens)).toEqual(new Set(['Bearer hf_of_the_file']));
      expect(new Set(other.tokens)).toEqual(new Set([undefined]));
      vi.stubEnv('HF_TOKEN', 'hf_of_the_environment');
      await hubFolder('org/small').readText('sub/notes.txt');
      expect(hub.tokens.at(-1)).toBe('Bearer hf_of_the_environment');
      hub.fault = (_request, response) => {
        response.writeHead(401).end();
        return true;
      };
      const error = await errorOf(hubFolder('org/small').readText('model.safetensors'));
      expect(error.message).toMatch(/status 401. .*set HF_TOKEN/);
      expect(`${error.stack}${JSON.stringify(error)}`).not.toContain('hf_of');
    } finally {
      await other[Symbol.asyncDispose]();
    }
  });

  it('must be a name and a revision that lead to no other folder', () => {
    for (const name of ['../x/y', 'a/b/c', 'org/..', '.org/x', 'org/x--y', '']) {
      expect(() => hubFolder(name), name).toThrow(ConfigError);
    }
    for (const revision of ['../main', 'a//b', '/x', 'x/']) {
      expect(() => hubFolder('org/small', { revision }), revision).toThrow(ConfigError);
    }
  });
});
