import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import { formatLayout, fromData, LineMesh, setRank } from '@shardwise/core';
import { formatShape, localShape, ownPlace } from '@shardwise/core/extend';
import { fromLocal } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { describe, expect, it } from 'vitest';
import { allLayouts } from './redistribution-table.ts';

const shapes = [
  [0, 3],
  [3, 0],
];

describe.each([0, 1])('on rank %i of 2, a tensor without elements', (rank) => {
  it.each(shapes)('of shape [%i, %i] has the shape of its part in every layout', (...shape) => {
    const transport = createLoopbackTransports(2)[rank];
    if (transport === undefined) throw new RangeError(`no transport of rank ${rank}`);
    setRank({ device: interpreter(), mesh: new LineMesh('a', createGroup(transport)) });
    const layouts = allLayouts(['a']);
    const found = layouts.flatMap((from) => {
      const own = localShape(shape, from, ownPlace);
      const x = fromLocal(fromData(new Float32Array(), own, 'f32'), from, shape);
      return layouts.map((to) => {
        const { shape: part } = x.redistribute(to).toLocal();
        return `${formatLayout(from)} to ${formatLayout(to)}: ${formatShape(part)}`;
      });
    });
    const expected = layouts.flatMap((from) =>
      layouts.map((to) => {
        const part = formatShape(localShape(shape, to, ownPlace));
        return `${formatLayout(from)} to ${formatLayout(to)}: ${part}`;
      }),
    );
    expect(found).toEqual(expected);
  });
});
