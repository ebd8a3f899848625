import { ShardwiseError } from '../../spec/errors.ts';
import type { ExecutionPlan } from '../plan/execution-plan.ts';
import { failedValues } from '../plan/failed-values.ts';
import type { PlanStep } from '../steps/plan-step.ts';
import type { Run } from '../steps/run-memory.ts';
import { type RootResult, RunFailure } from './run-failure.ts';

/** The failure of a run at a step. `resultOf` returns the memory of a root that was computed. */
export async function failureOf(
  run: Run,
  plan: ExecutionPlan,
  at: number,
  thrown: unknown,
  resultOf: (root: number) => RootResult,
): Promise<RunFailure> {
  const { started } = run;
  const error = await reasonOf(run, thrown);
  const made = new Set<number>();
  for (const step of plan.steps.slice(0, at)) {
    if (step.kind === 'compute') for (const id of step.outputs) made.add(id);
  }
  for (const [id, done] of started) if (await succeeds(done)) made.add(id);
  for (const [id, inputs] of plan.memory.concats)
    if (inputs.every((input) => made.has(input))) made.add(id);
  const results = plan.graph.roots.map((id) => (made.has(id) ? resultOf(id) : null));
  const step = plan.steps[at];
  const updated =
    plan.steps.slice(0, at).some((each) => updates(plan, each)) ||
    (step !== undefined && mayHaveUpdated(plan, step, error));
  const values = step === undefined || step.kind === 'copy' ? [] : step.values;
  return new RunFailure(
    plan,
    step?.kind === 'compute' ? failedValues(values, error) : values,
    { updated, started: new Set(started.keys()) },
    results,
    error,
  );
}

/** If a collective was not called, because an earlier one has ended the group, the error of that one gives the reason. */
async function reasonOf({ started }: Run, error: unknown): Promise<unknown> {
  if (!isAborted(error)) return error;
  const outcomes = await Promise.allSettled(started.values());
  const earlier = outcomes.find((each) => each.status === 'rejected' && !isAborted(each.reason));
  return earlier?.status === 'rejected' ? earlier.reason : error;
}

function isAborted(error: unknown): boolean {
  return ShardwiseError.isInstance(error) && error.code === 'COLLECTIVE_ABORTED';
}

async function succeeds(done: Promise<void>): Promise<boolean> {
  try {
    await done;
    return true;
  } catch {
    return false;
  }
}

/** Whether a step changes leaves in place. */
function updates(plan: ExecutionPlan, step: PlanStep): boolean {
  if (step.kind === 'compute') return step.updates;
  if (step.kind === 'copy') return true;
  return step.kind === 'start' && step.values.some((id) => plan.memory.places[id]?.kind === 'leaf');
}

/** Whether a failed step may have changed leaves. A failed program has changed none unless its error says so. */
function mayHaveUpdated(plan: ExecutionPlan, step: PlanStep, error: unknown): boolean {
  if (step.kind !== 'compute') return updates(plan, step);
  return step.updates && ShardwiseError.isInstance(error) && error.fields['updated'] === true;
}
