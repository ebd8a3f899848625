import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { repository } from './support/documents.ts';

/**
 * Names that must not come back. A Layout says which part of a tensor a rank has, a Chunk says which elements these
 * are, and redistribute changes a tensor from one layout to another. These names described parts of that before. A
 * Placement is not one of them: it is how ranks share a parameter out, whose part has a layout.
 */
const gone = [
  'PartitionedParameter',
  'Cut',
  'CutRule',
  'CutParameter',
  'GridCut',
  'DimAxes',
  'Extent',
  'TensorRegion',
  'Holding',
  'changePlacement',
  'changeCollectives',
  'applyRedistribution',
  'takeExtent',
  'partOfExtent',
  'ShardedStates',
] as const;

/**
 * Names that must not come back. A Communicator carries the messages of an algorithm, and a long message is cut into
 * fragments.
 */
const goneFromCollectives = ['Wire', 'CallWire', 'WireEnds', 'segmentsOf', 'HostPiece'] as const;

// An old name of the root is declared only to say the new one.
const files = globSync('packages/*/src/**/*.ts', {
  cwd: repository,
  exclude: ['packages/shardwise/src/groups/moved/**'],
});
const sources = files.map((file) => ({
  file,
  text: readFileSync(join(repository, file), 'utf8'),
}));

function declaring(name: string): string[] {
  const declares = new RegExp(
    `\\b(?:(?:interface|class|function|const) ${name}\\b|type ${name}\\b[^=,}]*=)`,
  );
  return sources.filter(({ text }) => declares.test(text)).map(({ file }) => file);
}

describe('who holds what has one language', () => {
  it.each(gone)('nothing declares %s', (name) => {
    expect(declaring(name)).toEqual([]);
  });

  it.each(goneFromCollectives)('nothing declares %s', (name) => {
    expect(declaring(name)).toEqual([]);
  });

  it('segments are of execution plans, and only messages over sockets are on a wire', () => {
    const collectives = sources.filter(({ file }) => file.startsWith('packages/collectives/'));
    const using = (word: RegExp): string[] =>
      collectives.filter(({ text }) => word.test(text)).map(({ file }) => file);
    expect(using(/segment/i)).toEqual([]);
    const isOfSockets = (file: string): boolean => /\/(wire|requests|stores|tcp)\//.test(file);
    expect(using(/\bwires?\b/i).filter((file) => !isOfSockets(file))).toEqual([]);
  });

  it('a call site is a line of user code', () => {
    expect(declaring('CallSite')).toHaveLength(1);
  });

  it('one interface is called Layout, and one type Chunk', () => {
    expect(declaring('Layout')).toEqual(['packages/core/src/spec/layout.ts']);
    expect(declaring('Chunk')).toEqual(['packages/core/src/layout/chunks.ts']);
  });
});

describe('each kind of value is checked in one language', () => {
  it('one type is called Check, and one OptionRule', () => {
    expect(declaring('Check')).toEqual(['packages/core/src/saved-data.ts']);
    expect(declaring('OptionRule')).toEqual(['packages/core/src/base/option-rules.ts']);
  });

  it('a package that depends on zod checks data from outside with zod alone', () => {
    const using = (pattern: RegExp): Set<string | undefined> =>
      new Set(
        sources.filter(({ text }) => pattern.test(text)).map(({ file }) => file.split('/')[1]),
      );
    const withZod = using(/from 'zod'/);
    expect(withZod).toEqual(
      new Set(['collectives', 'compat', 'data', 'models', 'planner', 'serve', 'shardwise']),
    );
    const withCheck = using(/\bcheck\.Check\b|\bcheck\.object\(|saved-data\.ts'/);
    expect(withCheck).toEqual(new Set(['core', 'parameter-server']));
  });
});
