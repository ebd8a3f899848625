import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Server, startStoreServer } from '@shardwise/collectives/node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { joinByModule } from '../src/rank/join/join-by-module.ts';

const secret = 'a secret of this test alone';
let server: Server;
let directory = '';
let modules = 0;

beforeAll(async () => {
  server = await startStoreServer({ secret });
  directory = await mkdtemp(join(tmpdir(), 'shardwise-join-'));
});
afterAll(async () => {
  server.close();
  await rm(directory, { recursive: true });
});

/** Joins rank 0 of two by a module with this source. */
async function joinBy(source: string, timeoutMs = 60_000): Promise<unknown> {
  const path = join(directory, `own-${modules++}.mjs`);
  await writeFile(path, source);
  const { host, port } = server;
  return joinByModule(
    {
      kind: 'module',
      module: { name: './own.ts', specifier: pathToFileURL(path).href, directory, timeoutMs },
      hosts: [0, 0],
      meeting: { store: { host, port }, secret, epoch: 0, host },
    },
    0,
  );
}

describe('a rank is not joined where the module', () => {
  it.each([
    [
      'throws while it loads',
      'throw new RangeError("no socket");',
      /cannot be loaded \(RangeError: no socket\)\. Make/,
    ],
    [
      'has no default export',
      'export const connect = 1;',
      /--transport .\/own.ts: the module has no default export\. Export a/,
    ],
    [
      'exports no function',
      'export default 5;',
      /its default export is a value of type number, not a function/,
    ],
    [
      'makes nothing',
      'export default () => undefined;',
      /Connecting rank 0 of 2 by --transport .\/own.ts: the module made undefined\. Return/,
    ],
    [
      'makes no transport',
      'export default ({ rank, size }) => ({ rank, size, send() {} });',
      /has no method recv, close\. Return a Transport/,
    ],
    [
      'makes the transport of another rank',
      'const none = () => undefined; export default () => ({ rank: 7, size: 9, send: none, recv: none, close: none });',
      /says that it is rank 7 of 9/,
    ],
    [
      'makes a transport of another version',
      'const none = () => undefined; export default ({ rank, size }) => ({ specificationVersion: 2, rank, size, send: none, recv: none, close: none });',
      /by --transport .\/own.ts, a transport of specificationVersion 2: this Shardwise has version 1\. Update/,
    ],
  ])('%s', async (_, source, message) => {
    await expect(joinBy(source)).rejects.toThrow(message);
  });

  it('is not done within the time limit', async () => {
    const joining = joinBy('export default () => new Promise(() => undefined);', 50);
    await expect(joining).rejects.toThrow(
      /Connecting rank 0 of 2 .*: the transport was not there after 50 ms\. Look/,
    );
    await expect(joining).rejects.toMatchObject({ code: 'COLLECTIVE_TIMEOUT' });
  });
});
