import { ConfigError, describeValue } from '../../spec/errors.ts';
import { Module } from '../module/module.ts';
import { Parameter } from '../parameter/parameter.ts';

/** A list of parameters, named 0, 1, …. */
export class ParameterList extends Module implements Iterable<Parameter> {
  /** Throws ConfigError for a value that is not a parameter. */
  constructor(parameters: Iterable<Parameter> = []) {
    super();
    for (const parameter of parameters) this.append(parameter);
  }

  get length(): number {
    return this.ownParameters().length;
  }

  /** The parameter at an index. Negative indices count from the end. */
  at(index: number): Parameter | undefined {
    return this.ownParameters().at(index)?.[1];
  }

  /** Throws ConfigError for a value that is not a parameter. */
  append(parameter: Parameter): this {
    const given: unknown = parameter;
    if (!(given instanceof Parameter)) {
      throw new ConfigError({
        asked: 'a ParameterList of parameters',
        found: `${describeValue(given)} among them`,
        todo: 'Give it a list of parameters: new nn.ParameterList([a, b])',
      });
    }
    // The parameters are kept as fields, so that strategies can replace them.
    Reflect.set(this, String(this.length), parameter);
    return this;
  }

  *[Symbol.iterator](): Iterator<Parameter> {
    for (const [, parameter] of this.ownParameters()) yield parameter;
  }
}
