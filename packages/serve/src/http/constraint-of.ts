import type { TokenConstraint } from '../constraints/token-constraint.ts';
import type { Engine } from '../engine/engine.ts';
import { isUserError } from './user-errors.ts';
import { ApiError } from './api-error.ts';
import type { FormFields } from './request-bodies.ts';

/** The form that a body asks for. Throws ApiError 400 for one that cannot be met, or that is not known. */
export function constraintOf(engine: Engine, body: FormFields): TokenConstraint | null {
  const { response_format: format, structured_outputs: own } = body;
  if (own != null && format?.type === 'json_schema') {
    throw new ApiError(400, 'Give response_format or structured_outputs, and not both.', {
      param: 'response_format',
    });
  }
  const param = own == null ? 'response_format' : 'structured_outputs';
  try {
    if (format?.type === 'json_schema') {
      return engine.constraints.jsonSchema(format.json_schema.schema);
    }
    if (own == null) return null;
    if ('json' in own) return engine.constraints.jsonSchema(own.json);
    if ('regex' in own) return engine.constraints.regularExpression(own.regex);
    return engine.constraints.choice(own.choice);
  } catch (error) {
    if (!isUserError(error)) throw error;
    throw new ApiError(400, error.message, { param });
  }
}
