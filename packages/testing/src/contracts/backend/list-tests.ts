import { ConfigError } from '@shardwise/core/spec';
import type { Backend, PrimitiveOp } from '@shardwise/core/spec';
import { adjointTests } from './adjoint-tests.ts';
import { equal } from '../../suite/assertions.ts';
import { composites } from './cases/composite.ts';
import { contractCases } from './cases/contract.ts';
import { elementwiseCases } from './cases/elementwise.ts';
import { indexingCases } from './cases/indexing.ts';
import { leafCases } from './cases/leaves.ts';
import { movementCases } from './cases/movement.ts';
import { reduceCases } from './cases/reduce.ts';
import { type ContractTest, reasonNotNative } from './contract-test.ts';
import { indexTests } from './index-tests.ts';
import { memoryTests } from './memory-tests.ts';
import type { OpCase, OpCases } from './op-case.ts';
import { flatMemoryTest, orderTests } from './order-tests.ts';
import { programTests } from './program-tests.ts';
import { randomProgramTests, randomSizedProgramTests } from './random-program-tests.ts';
import { roundingTests } from './rounding-tests.ts';
import { runCase } from './run-case.ts';
import { sizedTests } from './sized-tests.ts';
import { halfProductTests } from './half-product-tests.ts';
import { storedDTypeTests } from './stored-dtype-tests.ts';

/** Tests that are known to fail. If one of them passes, this is a failure. */
export interface Skip {
  /** Why they fail, with a link to where this is followed up. */
  readonly reason: string;
  /** The tests, each as `group: title`. A group is an op, or `program`, `memory`, `order`, …. */
  readonly tests: readonly string[];
}

/** Options of `listTests`. */
export interface ListOptions<B extends Backend> {
  readonly bytesInUse?: ((backend: B) => number) | undefined;
  readonly skip?: readonly Skip[];
}

/** A test of the contract of backends, with its group. */
export interface ListedTest<B extends Backend> extends ContractTest<B> {
  readonly group: string;
}

const interfaceTests: readonly ContractTest[] = [
  {
    title: 'the backend implements this version of the interface',
    check: async (backend) => equal(backend.specificationVersion, 1),
  },
];

const primitiveCases: OpCases<PrimitiveOp> = {
  ...leafCases,
  ...elementwiseCases,
  ...reduceCases,
  ...movementCases,
  ...contractCases,
  ...indexingCases,
};

/** Every test of the contract of backends. Throws ConfigError if `skip` names a test that does not exist. */
export function listTests<B extends Backend>(options: ListOptions<B> = {}): ListedTest<B>[] {
  const { bytesInUse, skip = [] } = options;
  const leaks = bytesInUse ? [flatMemoryTest(bytesInUse)] : [];
  const tests: ListedTest<B>[] = [
    ...Object.entries(primitiveCases).flatMap((row) => listCases(row, primitiveTest)),
    ...Object.entries(composites).flatMap(([op, { cases }]) =>
      listCases([op, cases], compositeTest),
    ),
    ...listed('adjoint', adjointTests),
    ...listed('stored dtypes', storedDTypeTests),
    ...listed('products of 16 bits', halfProductTests()),
    ...listed('indices', indexTests),
    ...listed('program', programTests),
    ...listed('rounding', roundingTests),
    ...listed('random programs', [...randomProgramTests, ...randomSizedProgramTests]),
    ...listed('sizes', sizedTests),
    ...listed('interface', interfaceTests),
    ...listed('memory', memoryTests),
    ...listed('order', [...orderTests, ...leaks]),
  ];
  const reasons = new Map(skip.flatMap(({ reason, tests }) => tests.map((name) => [name, reason])));
  const skipped = tests.map((entry) => {
    const name = `${entry.group}: ${entry.title}`;
    const reason = reasons.get(name);
    reasons.delete(name);
    return reason === undefined ? entry : inverted(entry, name, reason);
  });
  const [unknown] = reasons.keys();
  if (unknown !== undefined) throw unknownTest(unknown);
  return skipped;
}

function listed<B extends Backend>(
  group: string,
  tests: readonly ContractTest<B>[],
): ListedTest<B>[] {
  return tests.map((entry) => ({ ...entry, group }));
}

function listCases<B extends Backend>(
  [op, casesOf]: readonly [op: string, casesOf: () => readonly OpCase[]],
  toTest: (opCase: OpCase) => ContractTest<B>,
): ListedTest<B>[] {
  return listed(op, casesOf().map(toTest));
}

function primitiveTest(opCase: OpCase): ContractTest {
  return { title: opCase.title, check: (backend) => runCase(backend, opCase) };
}

/**
 * Makes the test of a composite. It is skipped for a backend that does not list the composite, because it gets the
 * composite as primitives, which have their own tests.
 */
function compositeTest(opCase: OpCase): ContractTest {
  const { op } = opCase.operation;
  return {
    ...primitiveTest(opCase),
    reasonToSkip: (backend) => reasonNotNative(backend, op),
  };
}

function inverted<B extends Backend>(
  entry: ListedTest<B>,
  name: string,
  reason: string,
): ListedTest<B> {
  return {
    ...entry,
    title: `${entry.title} (skipped: ${reason})`,
    check: async (backend) => {
      try {
        await entry.check(backend);
      } catch {
        return;
      }
      throw new Error(`"${name}" passes: take it out of skip`);
    },
  };
}

function unknownTest(name: string): ConfigError {
  return new ConfigError(
    {
      asked: `to skip "${name}"`,
      found: 'no test of the contract has that name',
      todo: 'Name tests as `group: title`, as the report shows them',
    },
    { name },
  );
}
