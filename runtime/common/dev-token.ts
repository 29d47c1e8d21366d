/**
 * The fixed token of local installations, for calls of agents and for the model gateway alike, and
 * the tenant that it stands for. Good only where a program is told so (`DEV_TOKEN`).
 */
export const DEV_TOKEN = "local-dev-token";
export const DEV_TENANT = "local";
