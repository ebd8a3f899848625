import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { collect } from '../src/realize/collect/collect.ts';
import { PIECE_OPS, piecesOf } from '../src/realize/collect/pieces.ts';
import { Signatures } from '../src/realize/signature/signature.ts';
import { Interned } from '../src/realize/signature/words.ts';
import { setRank } from '../src/rank.ts';
import { zeros } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

beforeEach(() => setRank({ device: interpreter() }));

/** An update of a parameter, as an optimizer might compute it. */
function updated(parameter: Tensor): Tensor {
  return parameter.mul(2).add(parameter.square()).sub(1).div(3).neg();
}

/** Returns the hash of the structure of each piece of an update of all parameters. */
function structures(parameters: readonly Tensor[]): number[] {
  const roots = parameters.map((parameter) => updated(parameter).node);
  const signatures = new Signatures(new Interned());
  return piecesOf(collect(roots), roots).map(
    (piece) => signatures.of(collect(piece), piece).key.hash,
  );
}

describe('updates of many parameters that do not depend on each other', () => {
  const layer = [[3, 2], [2], [2, 2, 5], [7], [5]];
  // `pieceOps` is not a multiple of the number of operations per layer.
  const layers = Array.from({ length: (8 * PIECE_OPS) / 7 / layer.length }, () => layer).flat();

  test('are cut between layers, so that pieces have one plan', () => {
    const [, ...later] = structures([[11], ...layers].map((shape) => zeros(shape)));
    expect(later.length).toBeGreaterThan(4);
    expect(new Set(later.slice(0, -1)).size).toBe(1);
  });

  test('are cut all the same where nothing comes again', () => {
    const shapes = layers.map((shape, index) => [...shape, index + 1]);
    expect(structures(shapes.map((shape) => zeros(shape))).length).toBeGreaterThan(4);
  });
});
