import {
  ConfigError,
  formatLayout,
  formatShape,
  type Module,
  type Plan,
} from '@shardwise/core/extend';

/** Throws ConfigError if a parameter was constructed as another part than the plan gives this rank. */
export function checkInitialParts({ strategy, parameters }: Plan, model: Module): void {
  const planned = new Map(parameters.map((parameter) => [parameter.name, parameter.parameter]));
  for (const [name, { initialPart, shape }] of model.namedParameters()) {
    const layout = planned.get(name);
    if (initialPart === null || layout === undefined) continue;
    const [kept, given] = [formatLayout(initialPart.layout), formatLayout(layout)];
    if (kept === given) continue;
    throw new ConfigError(
      {
        asked: `a parameter ${name} of shape ${formatShape(shape)} as ${given}, by ${strategy}`,
        found: `it was constructed in parts, and this rank kept its part of ${kept}`,
        todo: 'Give constructSharded the strategy that the model is parallelized with, or build it without constructSharded',
      },
      { parameter: name, shape, expected: layout, found: initialPart.layout },
    );
  }
}
