import { computationsOf, type Schedule } from '../../pipeline-schedule/actions/schedule.ts';

/**
 * Returns, for each rank, the forward passes with which it begins a step before it waits for the verdict on the
 * previous step, as `stage microbatch`. These are the forwards before its first backward, except those that need a
 * value which another rank computes only after its verdict.
 */
export function optimisticForwards({ actions }: Schedule): readonly ReadonlySet<string>[] {
  const leading = actions.map((own) => {
    const all = own.flatMap(computationsOf);
    const backward = all.findIndex(({ kind }) => kind !== 'forward');
    return backward < 0 ? all : all.slice(0, backward);
  });
  for (;;) {
    const early = new Set(leading.flat().map(nameOf));
    const late = new Set(
      actions
        .flat()
        .flatMap(computationsOf)
        .map(nameOf)
        .filter((name) => !early.has(name)),
    );
    const cuts = leading.map((own) =>
      own.findIndex(({ stage, microbatch }) =>
        Array.from({ length: stage }, (_, before) => nameOf({ stage: before, microbatch })).some(
          (name) => late.has(name),
        ),
      ),
    );
    if (cuts.every((cut) => cut < 0)) break;
    for (const [rank, cut] of cuts.entries()) if (cut >= 0) leading[rank]?.splice(cut);
  }
  return leading.map((own) => new Set(own.map(nameOf)));
}

function nameOf({
  stage,
  microbatch,
}: {
  readonly stage: number;
  readonly microbatch: number;
}): string {
  return `${stage} ${microbatch}`;
}
