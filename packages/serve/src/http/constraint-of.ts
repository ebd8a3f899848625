import type { TokenConstraint } from '../constraints/token-constraint.ts';
import type { Engine } from '../engine/engine.ts';
import { isUserError } from './user-errors.ts';
import { ApiError } from './api-error.ts';
import type { FormFields, ResponseBody } from './request-bodies.ts';

/** The form that a body asks for. Throws ApiError 400 for one that cannot be met, or that is not known. */
export function constraintOf(engine: Engine, body: FormFields): TokenConstraint | null {
  const { response_format: format, structured_outputs: own } = body;
  if (own != null && format != null && format.type !== 'text') {
    throw new ApiError(400, 'Give response_format or structured_outputs, and not both.', {
      param: 'response_format',
    });
  }
  if (format?.type === 'json_schema') {
    const { schema } = format.json_schema;
    return made('response_format', () => engine.constraints.jsonSchema(schema));
  }
  if (format?.type === 'json_object') return engine.constraints.jsonObject();
  if (own == null) return null;
  return made('structured_outputs', () => {
    if ('json' in own) return engine.constraints.jsonSchema(own.json);
    if ('regex' in own) return engine.constraints.regularExpression(own.regex);
    if ('grammar' in own) return engine.constraints.grammar(own.grammar);
    return engine.constraints.choice(own.choice);
  });
}

/** The form that a body of the newer interface asks for. Throws as `constraintOf` does. */
export function constraintOfText(engine: Engine, { text }: ResponseBody): TokenConstraint | null {
  const format = text?.format;
  if (format?.type === 'json_object') return engine.constraints.jsonObject();
  if (format?.type !== 'json_schema') return null;
  return made('text.format', () => engine.constraints.jsonSchema(format.schema));
}

/** Makes a constraint of what a field of a body says. Throws ApiError 400, which names the field. */
export function made(param: string, make: () => TokenConstraint): TokenConstraint {
  try {
    return make();
  } catch (error) {
    if (!isUserError(error)) throw error;
    throw new ApiError(400, error.message, { param });
  }
}
