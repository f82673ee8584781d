/* addon.c: an add-on of Node that decodes frames, and keeps each in a list that nobody empties. */
#include <node_api.h>
#include <stdlib.h>
#include <string.h>

struct frame {
    struct frame *next;
    char bytes[16000];
};

static struct frame *frames;

static int decode(int seed)
{
    struct frame *frame = malloc(sizeof *frame);
    if (frame == NULL)
        return 0;
    memset(frame->bytes, seed & 0xff, sizeof frame->bytes);
    int sum = frame->bytes[0] + frame->bytes[sizeof frame->bytes - 1];
#ifdef MENDED
    free(frame);
#else
    frame->next = frames;
    frames = frame;
#endif
    return sum;
}

static napi_value decode_frame(napi_env env, napi_callback_info info)
{
    napi_value words[1], result;
    size_t count = 1;
    int32_t seed = 0;
    napi_get_cb_info(env, info, &count, words, NULL, NULL);
    napi_get_value_int32(env, words[0], &seed);
    napi_create_int32(env, decode(seed), &result);
    return result;
}

NAPI_MODULE_INIT()
{
    napi_value function;
    napi_create_function(env, "decode", NAPI_AUTO_LENGTH, decode_frame, NULL, &function);
    napi_set_named_property(env, exports, "decode", function);
    return exports;
}
