import type { TokenConstraint } from '../constraints/token-constraint.ts';
import type { Engine } from '../engine/engine.ts';
import { isUserError } from './user-errors.ts';
import { ApiError } from './api-error.ts';
import type { FormFields, ResponseBody } from './request-bodies.ts';

/** The form that a body asks for. Throws ApiError 400 for one that cannot be met, or that is not known. */
export function constraintOf(engine: Engine, body: FormFields): TokenConstraint | null {
  const { response_format: format, structured_outputs: own } = body;
  requireOne('response_format', format, own);
  if (format?.type === 'json_schema') {
    const { schema } = format.json_schema;
    return made('response_format', () => engine.constraints.jsonSchema(schema));
  }
  if (format?.type === 'json_object') return engine.constraints.jsonObject();
  return structured(engine, own);
}

/** The form that a body of the newer interface asks for. Throws as `constraintOf` does. */
export function constraintOfText(engine: Engine, body: ResponseBody): TokenConstraint | null {
  const { text, structured_outputs: own } = body;
  const format = text?.format;
  requireOne('text.format', format, own);
  if (format?.type === 'json_object') return engine.constraints.jsonObject();
  if (format?.type === 'json_schema') {
    return made('text.format', () => engine.constraints.jsonSchema(format.schema));
  }
  return structured(engine, own);
}

function requireOne(
  param: 'response_format' | 'text.format',
  format: { readonly type: string } | null | undefined,
  own: FormFields['structured_outputs'],
): void {
  if (own == null || format == null || format.type === 'text') return;
  throw new ApiError(400, `Give ${param} or structured_outputs, and not both.`, { param });
}

function structured(engine: Engine, own: FormFields['structured_outputs']): TokenConstraint | null {
  if (own == null) return null;
  return made('structured_outputs', () => {
    if ('json' in own) return engine.constraints.jsonSchema(own.json);
    if ('regex' in own) return engine.constraints.regularExpression(own.regex);
    if ('grammar' in own) return engine.constraints.grammar(own.grammar);
    return engine.constraints.choice(own.choice);
  });
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
