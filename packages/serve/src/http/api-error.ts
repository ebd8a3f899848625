import { inFieldNames } from './field-names.ts';
import { isUserError } from './user-errors.ts';

/** The kinds of errors of OpenAI's interface. */
type ApiErrorType =
  | 'invalid_request_error'
  | 'authentication_error'
  | 'not_found_error'
  | 'rate_limit_error'
  | 'server_error';

export interface ApiErrorOptions {
  readonly type?: ApiErrorType;
  /** The name of the field that is wrong. */
  readonly param?: string;
  readonly code?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An error with its status of HTTP, which the client gets in the form of OpenAI's interface. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly options: ApiErrorOptions;

  constructor(status: number, message: string, options: ApiErrorOptions = {}) {
    super(message);
    this.status = status;
    this.options = options;
  }

  /** The body of the response. */
  body(): object {
    const { type = 'invalid_request_error', param = null, code = null } = this.options;
    return { error: { message: this.message, type, param, code } };
  }

  response(): Response {
    return Response.json(this.body(), {
      status: this.status,
      ...(this.options.headers && { headers: this.options.headers }),
    });
  }
}

/** What a client is told of an error. Of one that is not its own fault it learns nothing but that there was one. */
export function apiErrorOf(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (isUserError(error)) {
    const { message, param } = inFieldNames(error.message);
    const isTooLong = 'contextLength' in error.fields;
    return new ApiError(400, message, {
      ...(param !== undefined && { param }),
      ...(isTooLong && { code: 'context_length_exceeded' }),
    });
  }
  return new ApiError(500, 'The server failed to answer the request.', { type: 'server_error' });
}

/** What requests get while a server closes. */
export function closingError(): ApiError {
  return new ApiError(503, 'The server is closing. Ask another one.', {
    type: 'server_error',
    code: 'closing',
    headers: { 'retry-after': '1' },
  });
}
