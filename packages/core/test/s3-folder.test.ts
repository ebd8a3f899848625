import { CheckpointError, ConfigError } from '@shardwise/core';
import { s3Folder } from '@shardwise/core/node';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type S3Server, startS3 } from '../../../test/support/s3-server.ts';

let server: S3Server;
beforeEach(async () => {
  server = await startS3();
  for (const [name, value] of Object.entries(server.environment)) vi.stubEnv(name, value);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await server[Symbol.asyncDispose]();
});

const encoder = new TextEncoder();
const bytesOf = (length: number): Uint8Array<ArrayBuffer> =>
  Uint8Array.from({ length }, (_, i) => (i * 31 + (i >> 8)) % 251);

describe('a folder of a bucket', () => {
  it('has what was written to it, under any name', async () => {
    const folder = s3Folder('s3://training/some models/');
    const names = ['config.json', 'a/b c+d/ü(1).txt', 'a=100%~!*.bin'];
    for (const name of names) await folder.write(name, [encoder.encode(name)]);
    expect(folder.place).toBe('s3://training/some models');
    for (const name of names) expect(await folder.readText(name)).toBe(name);
    const listed = await folder.list('');
    expect(listed.map((each) => each.name).toSorted()).toEqual(names.toSorted());
    expect(listed.map((each) => each.byteLength)).toEqual(
      listed.map((each) => encoder.encode(each.name).byteLength),
    );
    expect((await folder.list('a/')).map((each) => each.name)).toEqual([names[1]]);
    await folder.remove(['a/b c+d/ü(1).txt', 'never there']);
    expect((await folder.list('')).length).toBe(2);
    expect(await folder.readText(names[1] ?? '')).toBeUndefined();
    expect(await folder.open(names[1] ?? '')).toBeUndefined();
  });

  it('is read in ranges, and small reads that lie beside each other are one request', async () => {
    const folder = s3Folder('s3://training/data');
    const content = bytesOf(1_000_000);
    await folder.write('file', [content]);
    const before = server.requests.length;
    const file = await folder.open('file');
    expect(file?.byteLength).toBe(content.length);
    const large = new Uint8Array(400_000);
    expect(await file?.read(large, 300_000)).toBe(large.length);
    expect(large).toEqual(content.slice(300_000, 700_000));
    for (let at = 0; at < 1000; at += 10) {
      const small = new Uint8Array(10);
      await file?.read(small, at);
      expect(small).toEqual(content.slice(at, at + 10));
    }
    const end = new Uint8Array(20);
    expect(await file?.read(end, 999_990)).toBe(10);
    const reads = server.requests.slice(before);
    expect(reads.map(({ method }) => method)).toEqual(['HEAD', 'GET', 'GET', 'GET']);
    expect(reads.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThan(900_000);
  });

  it('takes large files in parts, which are one file when all are there', async () => {
    const partBytes = 5 * 1024 * 1024;
    const folder = s3Folder('s3://training/large', { partBytes });
    const content = bytesOf(partBytes + 12_345);
    const chunks = [
      content.subarray(0, 7),
      content.subarray(7, partBytes + 9),
      content.subarray(partBytes + 9),
    ];
    await folder.write('file', chunks);
    const parts = server.requests.filter(({ query }) => 'partNumber' in query);
    expect(new Set(parts.map(({ query }) => query['partNumber']))).toEqual(new Set(['1', '2']));
    expect(parts.length).toBe(2);
    const file = await folder.open('file');
    const found = new Uint8Array(content.length);
    expect(await file?.read(found, 0)).toBe(content.length);
    expect(Buffer.compare(found, content)).toBe(0);
  });

  it('shows nothing of a file whose write has failed, and keeps the old one', async () => {
    const partBytes = 5 * 1024 * 1024;
    const folder = s3Folder('s3://training/large', { partBytes, retries: 0 });
    await folder.write('file', [encoder.encode('old')]);
    server.fault = ({ query }) => (query['partNumber'] === '2' ? 500 : undefined);
    await expect(folder.write('file', [bytesOf(partBytes + 1)])).rejects.toThrow(
      /status 500, 1 times/,
    );
    expect(server.requests.at(-1)).toMatchObject({ method: 'DELETE', key: 'large/file' });
    expect(await folder.readText('file')).toBe('old');
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield bytesOf(2 * partBytes);
      throw new RangeError('no more');
    }
    server.fault = () => undefined;
    await expect(folder.write('file', broken())).rejects.toThrow('no more');
    expect(await folder.readText('file')).toBe('old');
  });

  it('writes a new file only if there is none', async () => {
    const folder = s3Folder('s3://training/claims');
    expect(await folder.writeNew('writer', encoder.encode('a'))).toBe(true);
    expect(await folder.writeNew('writer', encoder.encode('b'))).toBe(false);
    expect(await folder.readText('writer')).toBe('a');
    // The answer to the first request is lost: the second one finds what the first one wrote.
    expect(await folder.writeNew('writer', encoder.encode('a'))).toBe(true);
  });

  it('is listed to its end', async () => {
    const folder = s3Folder('s3://training/many');
    const names = Array.from({ length: 7 }, (_, i) => `file ${i} & more`);
    for (const name of names) await folder.write(name, [encoder.encode(name)]);
    server.listedAtOnce = 3;
    expect((await folder.list('')).map(({ name }) => name)).toEqual(names);
    expect(server.requests.filter(({ query }) => 'continuation-token' in query).length).toBe(2);
  });

  it('asks again after failures of the server and of the connection', async () => {
    const folder = s3Folder('s3://training/flaky');
    const content = bytesOf(600_000);
    let failures = 0;
    server.fault = ({ res }) => {
      failures += 1;
      if (failures % 3 === 1) return 503;
      if (failures % 3 === 2) res.destroy();
      return undefined;
    };
    await folder.write('file', [content]);
    const file = await folder.open('file');
    const found = new Uint8Array(content.length);
    expect(await file?.read(found, 0)).toBe(content.length);
    expect(Buffer.compare(found, content)).toBe(0);
    server.fault = () => 503;
    const before = server.requests.length;
    await expect(folder.readText('file')).rejects.toThrow(/status 503, 4 times/);
    expect(server.requests.length - before).toBe(4);
  });

  it('never mixes the bytes of two versions of a file', async () => {
    const folder = s3Folder('s3://training/versions');
    await folder.write('file', [bytesOf(900_000)]);
    const file = await folder.open('file');
    await file?.read(new Uint8Array(300_000), 0);
    await folder.write('file', [bytesOf(900_000).map((byte) => byte + 1)]);
    await expect(file?.read(new Uint8Array(300_000), 300_000)).rejects.toThrow(
      /another version instead of 900000 bytes/,
    );
  });
});

describe('what a store refuses', () => {
  it('is an error that has no secret in it', async () => {
    const secretAccessKey = 'a-secret-that-is-wrong';
    const credentials = { accessKeyId: 'S3RVER', secretAccessKey, sessionToken: 'a-token' };
    const folder = s3Folder('s3://training/models', { credentials, retries: 0 });
    const error = await folder.readText('config.json').catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(CheckpointError);
    const text = error instanceof Error ? `${error.stack}${JSON.stringify(error)}` : '';
    expect(text).toContain('status 403 (SignatureDoesNotMatch)');
    expect(text).not.toMatch(/a-secret|a-token/);
  });

  it('is told as what it is: no bucket, no credentials, another address', async () => {
    await expect(s3Folder('s3://elsewhere/x').list('')).rejects.toThrow(
      /status 404 \(NoSuchBucket\)/,
    );
    const open = s3Folder('s3://training/x', { credentials: null });
    await expect(open.readText('y')).rejects.toThrow(/status 403/);
    vi.stubEnv('AWS_ACCESS_KEY_ID', '');
    await expect(s3Folder('s3://training/x').readText('y')).rejects.toThrow(ConfigError);
    expect(() => s3Folder('s3://UPPER/x')).toThrow(/no name of a bucket/);
    expect(() => s3Folder('https://training/x')).toThrow(/no name of a bucket/);
    expect(() => s3Folder('s3://training/x', { partBytes: 1000 })).toThrow(ConfigError);
  });

  it('includes a redirect, which would carry a signature to another host', async () => {
    server.fault = ({ res }) => {
      res.setHeader('location', 'http://127.0.0.1:1/');
      res.setHeader('x-amz-bucket-region', 'eu-west-1');
      return 307;
    };
    const folder = s3Folder('s3://training/models');
    await expect(folder.readText('config.json')).rejects.toThrow(/region of the bucket: eu-west-1/);
  });
});
