export { interpreter } from './interpreter/interpreter.ts';
export type { Interpreter, InterpreterOptions } from './interpreter/interpreter.ts';
export { NdArray } from './interpreter/nd-array.ts';
export { assertAllclose, describeDifference } from './compare/allclose.ts';
export type { Comparable, Tolerance } from './compare/allclose.ts';
export { checkGradients, finiteDifference } from './compare/gradient-check.ts';
export type { FloatArray, GradientCheckOptions, ScalarFunction } from './compare/gradient-check.ts';
export { backendSuite } from './contracts/backend.ts';
export type { BackendContract } from './contracts/backend.ts';
export { type CompositeContract, composites } from './contracts/backend/cases/composite.ts';
export { evaluate } from './contracts/backend/device.ts';
export type { Evaluated } from './contracts/backend/device.ts';
export { bool, f32, hostValue, i32, integers, uniform } from './contracts/backend/host-value.ts';
export { listTests } from './contracts/backend/list-tests.ts';
export type { ListedTest, ListOptions, Skip } from './contracts/backend/list-tests.ts';
export type { OpCase } from './contracts/backend/op-case.ts';
export type { ExampleInput, OpExample } from './contracts/backend/op-example.ts';
export { type NamedExample, opExamples } from './contracts/backend/op-examples.ts';
export { ProgramBuilder } from './contracts/backend/program-builder.ts';
export type { Operation } from './contracts/backend/program-builder.ts';
export {
  groupCasesSuite,
  processGroupSuite,
  randomCallsSuite,
  randomWorldsSuite,
} from './contracts/process-group.ts';
export type { ProcessGroupContract } from './contracts/process-group.ts';
export { meshSuite, type MeshContract } from './contracts/mesh.ts';
export { samplerSuite, type SamplerContract } from './contracts/sampler.ts';
export { storeSuite, type StoreContract } from './contracts/store.ts';
export { transportSuite, type TransportContract } from './contracts/transport.ts';
export { strategySuite, type StrategyContract } from './contracts/strategy.ts';
export { contractModels } from './contracts/strategy/models.ts';
export {
  type PlayedTraining,
  runStrategyScenario,
  type StrategyRank,
  type StrategyScenario,
} from './contracts/strategy/scenario.ts';
export type {
  ExpectedTraining,
  StrategyBatch,
  StrategyCase,
  StrategyCases,
  StrategyModel,
} from './contracts/strategy/strategy-case.ts';
export * from './ranks.ts';
export {
  runSuite,
  type NotConcerned,
  type Suite,
  type SuiteTest,
  type TestOutcome,
} from './suite/suite.ts';
