import { ConfigError } from '@shardwise/core/spec';
import { operations, type Operation } from '../../call/record.ts';
import type { Algorithm } from './algorithm.ts';
import { algorithms } from './algorithms.ts';

export type AlgorithmSetting = ReadonlyMap<Operation, Algorithm>;

/** Reads `allReduce=ring,broadcast=tree`, or one name for allReduce. Throws ConfigError for unknown names. */
export function parseAlgorithmSetting(text: string): AlgorithmSetting {
  const setting = new Map<Operation, Algorithm>();
  for (const entry of text.split(',').map((part) => part.trim())) {
    if (entry === '') continue;
    const [first = '', second] = entry.split('=').map((part) => part.trim());
    const [asked, name] = second === undefined ? ['allReduce', first] : [first, second];
    const operation = operations.find((known) => known === asked);
    if (operation === undefined) throw unknownError(text, `no operation ${asked}`);
    const algorithm = algorithms[operation].find((known) => known.name === name);
    if (algorithm === undefined) throw unknownError(text, `${operation} has no algorithm ${name}`);
    setting.set(operation, algorithm);
  }
  return setting;
}

function unknownError(text: string, found: string): ConfigError {
  const known = operations
    .filter((operation) => operation !== 'split')
    .map((operation) => `${operation}=${algorithms[operation].map(({ name }) => name).join('|')}`);
  return new ConfigError(
    {
      asked: `The algorithms ${JSON.stringify(text)}`,
      found,
      todo: `Choose among ${known.join(', ')}`,
    },
    { setting: text },
  );
}
