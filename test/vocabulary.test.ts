import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { repository } from './support/documents.ts';

/**
 * What part of a tensor a rank has is said by Layout, which elements those are by Chunk, and how a tensor comes
 * from one layout into another by redistribute. These names said parts of it before.
 */
const gone = [
  'Placement',
  'Partition',
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

/** What carries an algorithm's messages is a Communicator, what a long message is cut into are fragments. */
const goneFromCollectives = ['Wire', 'CallWire', 'WireEnds', 'segmentsOf', 'HostPiece'] as const;

const sources = globSync('packages/*/src/**/*.ts', { cwd: repository }).map((file) => ({
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
