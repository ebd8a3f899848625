import { assertAllclose, composites, evaluate, interpreter } from '@shardwise/testing';
import { describe, expect, test } from 'vitest';
import { inputNode } from '../src/graph/create-node.ts';
import { createNodeOf } from '../src/graph/ops/ops.ts';
import { collect } from '../src/realize/collect/collect.ts';
import { programFor } from '../src/realize/plan/execution-plan.ts';

/** The expected values come from formulas in f64 that are independent of the decompositions. */
describe.each(Object.entries(composites))(
  'the decomposition of %s computes its formula',
  (_op, { cases }) => {
    test.each(cases())('$title', async ({ operation, inputs, expected, tolerance }) => {
      const leaves = inputs.map(({ shape, dtype }) =>
        inputNode(shape, dtype, { kind: 'host', bytes: new Uint8Array() }),
      );
      const root = createNodeOf(operation.op, operation.params, leaves);
      expect(root.shape).toEqual(expected.shape);
      const program = programFor(collect([root]), [root], interpreter().limits);
      const { outputs } = await evaluate(interpreter(), program, inputs);
      const [output] = outputs;
      if (output === undefined || !('values' in expected)) throw new Error('no result to compare');
      assertAllclose(output, expected, tolerance);
    });
  },
);
