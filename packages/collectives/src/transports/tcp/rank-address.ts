import { networkInterfaces } from 'node:os';
import { protocolError } from '../../wire/wire-error.ts';

/** Where a rank listens. It is told to the other ranks as `host port`. */
export interface RankAddress {
  readonly host: string;
  readonly port: number;
}

export function addressKey(epoch: number, rank: number): string {
  return `tcp/${epoch}/address/${rank}`;
}

export function encodeAddress({ host, port }: RankAddress): Uint8Array {
  return new TextEncoder().encode(`${host} ${port}`);
}

/** Throws CollectiveError for bytes that are no address. */
export function decodeAddress(bytes: Uint8Array): RankAddress {
  const text = new TextDecoder().decode(bytes.subarray(0, 300));
  const match = /^([\w.:%-]{1,255}) (\d{1,5})$/.exec(text);
  const [, host, digits] = match ?? [];
  const port = Number(digits);
  if (host !== undefined && port > 0 && port < 65_536) return { host, port };
  throw protocolError('the store holds no address of a rank where one should be');
}

/** The address by which others reach a host that listens on all its addresses. */
export function reachableHost(host: string): string {
  if (host !== '0.0.0.0' && host !== '::') return host;
  const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const outside = addresses.find(({ internal, family }) => !internal && family === 'IPv4');
  return outside?.address ?? '127.0.0.1';
}
