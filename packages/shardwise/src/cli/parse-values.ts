import { InvalidArgumentError } from 'commander';
import { type DeviceName, deviceNames, findDeviceName } from '../environment/device-name.ts';
import type { RankForm } from '../launcher/transports/transport-choice.ts';
import { parseSteps } from '../profile/parse-steps.ts';
import { MAX_NODES } from '../rendezvous/generation.ts';
import type { Endpoint, NodeRange } from './run-options.ts';

// Each of these functions throws InvalidArgumentError, to which commander adds the option and its value.

/** The default port of the store. It is also that of torch's c10d rendezvous. */
export const DEFAULT_PORT = 29_400;

export function parseRanks(text: string): number {
  return parseInteger(text, 1);
}

export function parsePort(text: string): number {
  const port = parseInteger(text, 0);
  if (port < 65_536) return port;
  throw new InvalidArgumentError('It must be a whole number from 0 to 65535');
}

export function parseReplicas(text: string): number {
  if (text === '1' || text === '2') return Number(text);
  throw new InvalidArgumentError('It must be 1 or 2');
}

/** Parses a share of a whole. */
export function parseFraction(text: string): number {
  const share = Number(text);
  if (/^\d(\.\d{1,9})?$/.test(text) && share <= 1) return share;
  throw new InvalidArgumentError('It must be a number from 0 to 1');
}

export function parseCount(text: string): number {
  return parseInteger(text, 0);
}

/** The largest whole number of an option. */
const LARGEST = 999_999_999;

function parseInteger(text: string, least: number): number {
  const count = Number(text);
  const isWhole = /^\d+$/.test(text) && count >= least;
  if (isWhole && count <= LARGEST) return count;
  throw new InvalidArgumentError(
    isWhole ? `It must be at most ${LARGEST}` : `It must be a whole number from ${least}`,
  );
}

/** Parses `10-12`, or `10` for one step. */
export function parseProfileSteps(text: string): readonly [from: number, to: number] {
  const steps = parseSteps(text);
  if (steps !== undefined) return steps;
  throw new InvalidArgumentError('It must be FIRST-LAST, such as 10-12');
}

export function parseSeconds(text: string): number {
  const seconds = Number(text);
  if (/^\d{1,6}(\.\d{1,3})?$/.test(text)) return seconds * 1000;
  throw new InvalidArgumentError('It must be a number of seconds');
}

/** Parses a number of GiB. Returns bytes. */
export function parseGibibytes(text: string): number {
  const count = Number(text);
  if (/^\d{1,6}(\.\d{1,3})?$/.test(text)) return Math.floor(count * 2 ** 30);
  throw new InvalidArgumentError('It must be a number of GiB');
}

export function parseDevice(text: string): DeviceName {
  const name = findDeviceName(text);
  if (name !== undefined) return name;
  throw new InvalidArgumentError(`It must be ${deviceNames.join(' or ')}`);
}

export function parseForm(text: string): RankForm {
  if (text === 'threads' || text === 'processes') return text;
  throw new InvalidArgumentError('It must be threads or processes');
}

/** Parses `2` or `1:4`. */
export function parseNodes(text: string): NodeRange {
  const [, least = '', most = least] = /^(\d{1,4})(?::(\d{1,4}))?$/.exec(text) ?? [];
  const min = Number(least);
  const max = Number(most);
  if (least !== '' && min >= 1 && max >= min && max <= MAX_NODES) return { min, max };
  throw new InvalidArgumentError(`It must be a number of hosts, or MIN:MAX, up to ${MAX_NODES}`);
}

/** Parses `host`, `host:port` or `[::1]:port`. */
export function parseEndpoint(text: string): Endpoint {
  const match = /^(?:\[([\da-fA-F:.%\w]+)\]|([\w.-]+))(?::(\d{1,5}))?$/.exec(text);
  const [, address, name, digits] = match ?? [];
  const host = address ?? name;
  const port = digits === undefined ? DEFAULT_PORT : Number(digits);
  if (host !== undefined && port > 0 && port < 65_536) return { host, port };
  throw new InvalidArgumentError('It must be HOST:PORT');
}

/** Adds a text to those of earlier options. */
export function addItem(text: string, items: readonly string[]): readonly string[] {
  return [...items, text];
}

/** Adds a text that is written as `name=text` to those of earlier options. */
export function addText(
  option: string,
  texts: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const [, name, text] = /^([^=]+)=(.*)$/s.exec(option) ?? [];
  if (name === undefined || text === undefined)
    throw new InvalidArgumentError('It must be name=text');
  return { ...texts, [name]: text };
}

const units: Readonly<Record<string, number>> = {
  '': 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KIB: 2 ** 10,
  MIB: 2 ** 20,
  GIB: 2 ** 30,
  TIB: 2 ** 40,
};

/** Parses bytes: `6GB`, `512MiB`, `1.5TB` or a number alone. */
export function parseSize(text: string): number {
  const [, number = '', unit = ''] = /^(\d{1,15}(?:\.\d{1,6})?)\s*([a-z]*)$/i.exec(text) ?? [];
  const bytes = Number(number) * (units[unit.toUpperCase()] ?? NaN);
  if (number !== '' && bytes > 0) return bytes;
  throw new InvalidArgumentError('It must be a size such as 60GB or 512MiB');
}

/** No rank has less memory, so a smaller number of bytes is one whose unit was forgotten. */
const LEAST_MEMORY_BYTES = 1e6;

/** Parses the memory of a rank, such as `40GB`. */
export function parseMemory(text: string): number {
  const bytes = parseSize(text);
  if (bytes >= LEAST_MEMORY_BYTES) return bytes;
  throw new InvalidArgumentError(
    `It is ${bytes} bytes. Write the unit, such as ${Number.parseFloat(text)}GB`,
  );
}
